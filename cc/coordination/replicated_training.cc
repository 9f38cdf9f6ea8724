#include "cc/coordination/replicated_training.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/training/trained_sets.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

std::string ReplicatedTraining::DescribeOptions() {
  state_->mu().AssertHeld();
  const Options& options = state_->options();
  const bool merges = options.algorithm == Options::Algorithm::kAdaptive;
  const Choice& choice = state_->synchronisation()->choice;
  std::string text = absl::StrCat(
      merges ? 0 : num_learners(), " ", choice.name(), " ", options.alpha, " ",
      options.sync_period, " ", options.ema_decay, " ", options.batch_size, " ",
      options.host_period, " ", static_cast<int>(options.centre), " ", choice.momentum,
      " ", options.host_chunks.searched ? -1 : options.host_chunks.gradients, "\n");
  if (!merges) return text;
  const AdaptiveOptions& o = options.adaptive;
  absl::StrAppend(&text, o.mega_batch, " ", o.b_max, " ", o.b_min, " ", o.beta, " ",
                  o.perturbation, " ", o.threshold, " ", o.momentum, " ", o.scales, " ",
                  o.normalises, " ", static_cast<int>(options.scheduling), "\n");
  return text;
}

std::string ReplicatedTraining::DescribeVariables() {
  state_->mu().AssertHeld();
  return state_->variables()->Describe();
}

int64_t ReplicatedTraining::num_variables() {
  state_->mu().AssertHeld();
  const VariableTable& variables = *state_->variables();
  return (int64_t{variables.size()} << 32) + variables.num_trained();
}

bool ReplicatedTraining::averages_gradients() {
  state_->mu().AssertHeld();
  return state_->averages_gradients();
}

absl::StatusOr<HostValues> ReplicatedTraining::Model(bool everything) {
  state_->mu().AssertHeld();
  HostValues values;
  VariableTable* const variables = state_->variables();
  if (variables == nullptr) return values;
  const bool averages_gradients = state_->averages_gradients();
  if (!averages_gradients) {
    TF_ASSIGN_OR_RETURN(values, variables->ModelStates());
  }
  if (averages_gradients || everything) {
    TF_ASSIGN_OR_RETURN(const HostValues followed, variables->FollowedStates());
    for (const auto& [name, value] : followed) values[name] = value;
  }
  return values;
}

absl::Status ReplicatedTraining::SetModel(const HostValues& values, bool everything) {
  state_->mu().AssertHeld();
  VariableTable* const variables = state_->variables();
  if (variables == nullptr) return absl::OkStatus();
  if (state_->averages_gradients()) return variables->TakeOverStates(values);
  variables->SetModelStates(values);
  return everything ? variables->TakeOverStates(values) : absl::OkStatus();
}

absl::StatusOr<HostValues> ReplicatedTraining::Values(
    const std::vector<int>& variables) {
  state_->mu().AssertHeld();
  VariableTable* const table = state_->variables();
  HostValues values;
  for (int id : variables) {
    if (!table->follows_others(id)) continue;
    TF_ASSIGN_OR_RETURN(values[table->node(id).name()],
                        table->ReplicaValue(id, /*learner=*/0));
  }
  return values;
}

absl::Status ReplicatedTraining::SetValues(const std::vector<int>& variables,
                                           const HostValues& values) {
  state_->mu().AssertHeld();
  VariableTable* const table = state_->variables();
  for (int id : variables) {
    const auto value = values.find(table->node(id).name());
    if (value == values.end()) continue;
    TF_RETURN_IF_ERROR(table->TakeOver(id, value->second));
  }
  return absl::OkStatus();
}

HostRounds::Result ReplicatedTraining::JoinWithoutTask(const TrainedSet& set,
                                                       HostRounds::Kind kind) {
  state_->mu().AssertHeld();
  return state_->synchroniser()->JoinWithoutTask(set, kind);
}

void ReplicatedTraining::SetHosts(const std::vector<int>& learners) {
  state_->mu().AssertHeld();
  if (state_->synchronisation() == nullptr) return;
  const Options& options = state_->options();
  const bool by_speed = options.scheduling == SchedulingPolicy::kFirstComeFirstServed;
  adaptive()->batches().SetHosts(learners, options.hosts->rank(), by_speed);
}

absl::StatusOr<TrainedSet> ReplicatedTraining::LocateModel() {
  state_->mu().AssertHeld();
  return LocateAll(state_);
}

int64_t ReplicatedTraining::ModelFingerprint() {
  state_->mu().AssertHeld();
  const VariableTable& variables = *state_->variables();
  std::string text;
  for (int id = 0; id < variables.size(); ++id) {
    if (!variables.trained(id) || !variables.in_model(id)) continue;
    absl::StrAppend(&text, variables.node(id).name(), "\n");
  }
  return static_cast<int64_t>(tf::Hash64(text));
}

Adaptive* ReplicatedTraining::adaptive() {
  state_->mu().AssertHeld();
  return state_->synchronisation()->adaptive;
}

HostMerges* ReplicatedTraining::host_merges() {
  state_->mu().AssertHeld();
  return state_->synchronisation()->host_merges.get();
}

}  // namespace tensorbow
