#include "cc/checkpoint/settings.h"

#include "absl/strings/str_cat.h"

namespace tensorbow {

SavedState::Settings SettingsOf(const Options& options, int num_learners) {
  const int num_hosts = options.hosts_left();
  Choice choice;
  choice.algorithm = options.algorithm;
  SavedState::Settings settings = {
      {"synchroniser",
       options.algorithm == Options::Algorithm::kAuto ? "auto" : choice.name()},
  };
  if (options.algorithm == Options::Algorithm::kSma) {
    const double alpha = options.alpha_of(num_learners * num_hosts);
    const bool lags = options.centre == SmaOptions::Centre::kLagging;
    settings.emplace_back("centre", lags ? "lagging" : "current");
    settings.emplace_back("alpha", absl::StrCat(alpha));
    if (lags) {
      settings.emplace_back("momentum", options.momentum.has_value()
                                            ? absl::StrCat(*options.momentum)
                                            : "auto");
    }
    settings.emplace_back("sync_period", absl::StrCat(options.sync_period));
  }
  if (options.algorithm == Options::Algorithm::kAdaptive) {
    const AdaptiveOptions& adaptive = options.adaptive;
    const auto add = [&settings](const char* name, auto value) {
      settings.emplace_back(name, value == 0 ? "None" : absl::StrCat(value));
    };
    add("mega_batch", adaptive.mega_batch);
    add("b_min", adaptive.b_min);
    add("b_max", adaptive.b_max);
    add("beta", adaptive.beta);
    settings.emplace_back("perturbation", absl::StrCat(adaptive.perturbation));
    settings.emplace_back("threshold", absl::StrCat(adaptive.threshold));
    settings.emplace_back("momentum", absl::StrCat(adaptive.momentum));
    settings.emplace_back("scaling", adaptive.scales ? "True" : "False");
    settings.emplace_back("normalisation", adaptive.normalises ? "True" : "False");
  } else if (options.algorithm != Options::Algorithm::kIndependent) {
    settings.emplace_back(
        "ema_decay", options.ema_decay > 0 ? absl::StrCat(options.ema_decay) : "None");
  }
  if (num_hosts > 1) settings.emplace_back("hosts", absl::StrCat(num_hosts));
  if (num_hosts > 1 && options.host_period > 1) {
    settings.emplace_back("cluster's sync_period", absl::StrCat(options.host_period));
  }
  return settings;
}

}  // namespace tensorbow
