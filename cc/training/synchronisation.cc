#include "cc/training/synchronisation.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/synchroniser/algorithms/device_sma.h"
#include "cc/synchroniser/algorithms/independent.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/algorithms/ssgd.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

using Kind = Options::Algorithm;

// Momentum of a lagging centre where the learners' optimiser has none of its own.
constexpr double kDefaultMomentum = 0.9;

SmaOptions SmaOptionsOf(const Choice& choice, const Options& options,
                        int num_learners) {
  SmaOptions sma;
  sma.centre = options.centre;
  sma.alpha = options.alpha_of(num_learners * options.hosts_left());
  sma.period = options.sync_period;
  sma.momentum = choice.momentum;
  sma.host_period = options.host_period;
  sma.host_alpha = options.alpha_of(num_learners);
  sma.reduces_on_host = options.reduces_on_host;
  return sma;
}

absl::StatusOr<DeviceSma> NewSmaFor(const SmaOptions& options, Hosts* hosts,
                                    const LearnerGroup& learners, CentralModel* model) {
  if (learners.accelerators() == nullptr) {
    return DeviceSma{NewSma(options, learners.size(), model, hosts), nullptr, ""};
  }
  std::vector<LearnerStream> streams;
  for (int j = 0; j < learners.size(); ++j) {
    AcceleratorDevice* const device = learners[j].accelerator();
    streams.push_back({device->ordinal(), device->stream()});
  }
  DeviceSma made = NewDeviceSma(options, std::move(streams), model);
  if (!made.error.empty()) return absl::InternalError(made.error);
  return made;
}

}  // namespace

std::string Choice::name() const {
  switch (algorithm) {
    case Kind::kAuto:
      return "";
    case Kind::kSma:
      return "SMA";
    case Kind::kSsgd:
      return "SSGD";
    case Kind::kIndependent:
      return "Independent";
    case Kind::kAdaptive:
      return "AdaptiveSGD";
  }
  return "";
}

Traits::Averages Choice::averages() const {
  switch (algorithm) {
    case Kind::kSma:
      return Traits::Averages::kModels;
    case Kind::kSsgd:
      return Traits::Averages::kGradients;
    case Kind::kAdaptive:
      return Traits::Averages::kMergedModels;
    case Kind::kAuto:
    case Kind::kIndependent:
      break;
  }
  return Traits::Averages::kNothing;
}

bool operator==(const Choice& a, const Choice& b) {
  return a.algorithm == b.algorithm && a.momentum == b.momentum;
}

Choice ChoiceOfName(absl::string_view name) {
  for (Kind algorithm :
       {Kind::kSma, Kind::kSsgd, Kind::kIndependent, Kind::kAdaptive}) {
    Choice choice;
    choice.algorithm = algorithm;
    if (choice.name() == name) return choice;
  }
  return Choice();
}

Choice ChoiceFor(const RunAnalysis& analysis, const Options& options,
                 const LearnerGroup& learners) {
  Choice choice;
  choice.algorithm = options.algorithm;
  if (choice.algorithm == Kind::kAuto) {
    choice.algorithm = learners.accelerators() == nullptr ? Kind::kSsgd : Kind::kSma;
  }
  if (options.centre == SmaOptions::Centre::kLagging) {
    const double by_optimiser = analysis.plain_gradient_descent ? kDefaultMomentum : 0;
    choice.momentum = options.momentum.value_or(by_optimiser);
  }
  return choice;
}

absl::Status CheckAlgorithm(Options::Algorithm algorithm,
                            const LearnerGroup& learners) {
  if (learners.accelerators() == nullptr ||
      (algorithm != Kind::kSsgd && algorithm != Kind::kAdaptive)) {
    return absl::OkStatus();
  }
  Choice choice;
  choice.algorithm = algorithm;
  const std::string type = learners.accelerators()->type();
  return absl::UnimplementedError(absl::StrCat(
      "Got the synchroniser ", choice.name(), " for learners on ", type,
      "s, where it is not implemented. Use tensorbow.SMA(), or keep the session off "
      "them: ConfigProto(device_count={'",
      type, "': 0})"));
}

absl::StatusOr<std::unique_ptr<Synchronisation>> NewSynchronisation(
    const Choice& choice, const Options& options, const LearnerGroup& learners,
    HostRounds* rounds) {
  const int count = learners.size();
  const bool alone = count == 1 && rounds == nullptr;
  if (!alone) TF_RETURN_IF_ERROR(CheckAlgorithm(choice.algorithm, learners));
  auto made = std::make_unique<Synchronisation>();
  made->choice = choice;
  CentralModel::Keeps keeps = CentralModel::Keeps::kAverageOnly;
  if (!alone && choice.algorithm == Kind::kSma) keeps = KeptBySma(options.centre);
  if (!alone && choice.algorithm == Kind::kAdaptive) {
    keeps = CentralModel::Keeps::kMerged;
  }
  made->model = std::make_unique<CentralModel>(keeps, alone ? 0 : options.ema_decay);

  DeviceSma algorithm;
  if (alone || choice.algorithm == Kind::kIndependent) {
    algorithm.algorithm = std::make_unique<Independent>();
  } else if (choice.algorithm == Kind::kSma) {
    Hosts* const hosts = rounds == nullptr ? nullptr : rounds->hosts();
    TF_ASSIGN_OR_RETURN(algorithm, NewSmaFor(SmaOptionsOf(choice, options, count),
                                             hosts, learners, made->model.get()));
  } else if (choice.algorithm == Kind::kAdaptive) {
    auto adaptive =
        std::make_unique<Adaptive>(options.adaptive, count, made->model.get(),
                                   rounds == nullptr ? nullptr : rounds->hosts());
    made->adaptive = adaptive.get();
    if (rounds != nullptr) {
      made->host_merges = std::make_unique<HostMerges>(rounds, &adaptive->batches());
      rounds = nullptr;  // there are no iterations that hosts report on
    }
    algorithm.algorithm = std::move(adaptive);
  } else {
    if (rounds != nullptr && options.ema_decay > 0) {
      return absl::UnimplementedError(
          "Got ema_decay with the synchroniser SSGD on several hosts, where it is not "
          "implemented. Leave it out, or use tensorbow.SMA(ema_decay=...)");
    }
    algorithm.algorithm = std::make_unique<Ssgd>(made->model.get());
  }
  made->synchroniser = std::make_unique<Synchroniser>(
      count, made->model.get(), learners.spin(), std::move(algorithm.algorithm),
      algorithm.queue, rounds);
  return made;
}

}  // namespace tensorbow
