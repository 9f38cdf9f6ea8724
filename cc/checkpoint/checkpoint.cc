// Trainer::SaveState and Trainer::LoadState: what of the trainer's parts makes up a
// SavedState.
#include <map>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cc/checkpoint/checks.h"
#include "cc/checkpoint/saved_state.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/learner/variable_storage.h"
#include "cc/support/flush_denormals.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// In the user's words (tensorbow.Options).
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

std::map<std::string, const tf::NodeDef*> ByName(
    const std::vector<const tf::NodeDef*>& nodes) {
  std::map<std::string, const tf::NodeDef*> variables;
  for (const tf::NodeDef* node : nodes) variables[node->name()] = node;
  return variables;
}

// The central values, which share the variables' buffers.
absl::Status GetCentral(const std::vector<const tf::NodeDef*>& nodes,
                        tf::Device* device, SavedState* state) {
  for (const tf::NodeDef* node : nodes) {
    VariableStorage central;
    TF_RETURN_IF_ERROR(VariableStorage::Open(*node, node->attr().at("container").s(),
                                             device, /*create=*/false, &central));
    state->variables.push_back(node->name());
    if (central.mu() == nullptr) continue;
    tf::tf_shared_lock lock(*central.mu());
    if (central.initialised()) state->central[node->name()] = central.value();
  }
  return absl::OkStatus();
}

absl::Status SetCentral(const std::map<std::string, const tf::NodeDef*>& variables,
                        const SavedState& state, tf::Device* device) {
  for (const auto& [name, value] : state.central) {
    const tf::NodeDef& node = *variables.at(name);
    VariableStorage storage;
    TF_RETURN_IF_ERROR(VariableStorage::Open(node, node.attr().at("container").s(),
                                             device, /*create=*/true, &storage));
    tf::mutex_lock lock(*storage.mu());
    TF_RETURN_IF_ERROR(storage.Assign(value, {device->GetAllocator({})}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Trainer::SaveState(const std::vector<const tf::NodeDef*>& nodes,
                                const std::string& path) {
  turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  NoteWrites();
  if (rounds_ != nullptr) TF_RETURN_IF_ERROR(MeetHosts("save_state", path));
  SavedState state;
  state.num_learners = num_learners();
  state.settings = SettingsOf(options_, num_learners());
  state.choice = choice();
  state.iterations = iterations();
  state.learning_tasks = learning_tasks();
  state.samples_seen = samples_seen();
  TF_RETURN_IF_ERROR(RestartIfAsked());
  if (variables_ != nullptr) TF_RETURN_IF_ERROR(variables_->PublishAll());
  TF_RETURN_IF_ERROR(GetCentral(nodes, learners_.central_device(), &state));
  for (int id = 0; variables_ != nullptr && id < variables_->size(); ++id) {
    TF_ASSIGN_OR_RETURN(ReplicaState variable, variables_->GetState(id));
    state.replicated.push_back(std::move(variable));
  }
  for (int j = 0; j < num_learners(); ++j) {
    state.random.push_back(learners_[j].device()->random_streams().Get());
  }
  state.progress = progress_.Get();
  if (synchronisation_ != nullptr && synchronisation_->adaptive != nullptr) {
    state.mega_batch = synchronisation_->adaptive->batches().Get();
  }
  TF_RETURN_IF_ERROR(rounds_ == nullptr ? WriteState(state, path)
                                        : SavePart(state, path));

  const std::vector<std::string> hidden = progress_.HiddenRandomOps();
  if (!hidden.empty()) {
    warn_(absl::StrCat(
        "The saved state lacks the random state of ", FirstFew(hidden),
        ": a session that loads it draws other random numbers there. Use "
        "tf.random.Generator, stateless ops, or uniform, normal and truncated normal "
        "ops "
        "outside of functions (with one learner, give Options(seed=...), too)."));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckChoice(const Choice& saved) {
  if (saved.algorithm == Options::Algorithm::kAuto || synchronisation_ == nullptr ||
      synchronisation_->choice == saved) {
    return absl::OkStatus();
  }
  const auto text = [](const Choice& choice) {
    return absl::StrCat(choice.name(), " (momentum ", choice.momentum, ")");
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "This session has trained with another synchroniser than the saved state. Load "
      "the state into a new session, before its first learning run. Saved is ",
      text(saved), ", here is ", text(synchronisation_->choice), "."));
}

absl::Status Trainer::LoadState(const std::vector<const tf::NodeDef*>& nodes,
                                const std::string& path) {
  const std::map<std::string, const tf::NodeDef*> variables = ByName(nodes);
  turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  // First everything is read and checked, then it is set.
  if (rounds_ != nullptr) TF_RETURN_IF_ERROR(AgreeOnSave(path));
  absl::StatusOr<SavedState> read = ReadState(
      PathOfHost(path), [this](int learners) { return SettingsOf(options_, learners); },
      variables);
  absl::Status checked = read.status();
  if (checked.ok()) checked = CheckChoice(read->choice);
  if (rounds_ != nullptr) {
    if (checked.ok() && read->num_learners != num_learners()) {
      checked = absl::FailedPreconditionError(
          absl::StrCat("The saved state is of hosts with ", read->num_learners,
                       " learners each; this session has ", num_learners(),
                       ". Create the session with as many"));
    }
    checked = AgreeOnOutcome("load", checked);
    if (checked.ok() && merges_ != nullptr) checked = merges_->LearnHosts();
  }
  TF_RETURN_IF_ERROR(checked);
  SavedState& state = *read;
  if (state.num_learners != num_learners()) {
    const int devices = learners_.SizeOf({1, 1});
    if (state.num_learners % devices != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "The devices cannot share the learners of the saved state equally. Load it "
          "with another number of devices: got ",
          devices, " for ", state.num_learners, " learners"));
    }
    TF_ASSIGN_OR_RETURN(const Layout layout,
                        learners_.LayoutOf(state.num_learners / devices));
    TF_RETURN_IF_ERROR(ChangeLayout(layout));
  }
  const bool had_choice = synchronisation_ != nullptr;
  if (!had_choice && state.choice.algorithm != Options::Algorithm::kAuto) {
    TF_RETURN_IF_ERROR(Choose(state.choice));
  }
  std::vector<VariableUse> uses;
  for (const ReplicaState& variable : state.replicated) {
    VariableUse& use = uses.emplace_back();
    use.node = variables.at(variable.name);
    use.trained = variable.trained;
    use.generator = variable.generator;
  }
  if (variables_ != nullptr) {
    TF_RETURN_IF_ERROR(variables_->PublishReleased());
    const absl::Status set = variables_->SetStates(uses, state.replicated);
    if (!set.ok() && !had_choice) Unchoose();
    TF_RETURN_IF_ERROR(set);
  }
  TF_RETURN_IF_ERROR(SetCentral(variables, state, learners_.central_device()));
  {
    absl::MutexLock writes_lock(&writes_mu_);
    writes_.clear();
  }
  const HostRounds::Counts of_others = CountsOfHosts();
  iterations_.store(state.iterations - of_others.iterations);
  learning_tasks_.store(state.learning_tasks - of_others.tasks);
  samples_seen_.store(state.samples_seen - of_others.rows);
  for (int j = 0; j < num_learners(); ++j) {
    learners_[j].device()->random_streams().Set(state.random[j]);
  }
  progress_.Set(std::move(state.progress));
  if (!state.mega_batch.empty() &&
      !synchronisation_->adaptive->batches().Set(state.mega_batch)) {
    return absl::DataLossError("The saved sizes of batches make no sense");
  }
  if (merges_ != nullptr) merges_->ResumeCounts();
  restarts_made_ = restarts_requested_.load();  // of what has been replaced
  return absl::OkStatus();
}

}  // namespace tensorbow
