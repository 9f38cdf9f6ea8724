#include "cc/training/trained_sets.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

// Adds the program's variables to the table, in the first run.
absl::Status AddVariables(TrainingState* state, Program* program)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu()) {
  state->writes().RecordCaptured(program->analysis);
  ProgramState& used = program->state;
  for (const auto& [name, use] : program->analysis.variables) {
    const int id = state->variables()->Add(use);
    used.variables.push_back(id);
    if (use.written) used.written.push_back(id);
    if (program->Shares(name)) used.one_copy.push_back(id);
  }
  return state->variables()->Place(used.variables);
}

std::vector<int> ModelIndices(const VariableTable& variables,
                              const std::vector<int>& ids) {
  std::vector<int> indices;
  for (int id : ids) indices.push_back(variables.model_index(id));
  return indices;
}

}  // namespace

absl::StatusOr<bool> BroadcastWrites(TrainingState* state, Program* program,
                                     const VariableTable::Agreement& agree) {
  if (!state->replicates()) return true;
  state->MarkWrites();
  ProgramState& used = program->state;
  if (used.variables.empty()) TF_RETURN_IF_ERROR(AddVariables(state, program));
  VariableTable* const variables = state->variables();
  TF_RETURN_IF_ERROR(variables->Share(used.one_copy));
  variables->DetectEagerWrites(used.variables);
  std::vector<int> uninitialised;
  bool moved = false;
  TF_RETURN_IF_ERROR(
      variables->Broadcast(used.variables, agree, &uninitialised, &moved));
  if (moved) state->learners().NoteMovedReplicas();
  return uninitialised.empty();
}

void ChooseTrainedSet(TrainingState* state, Program* program) {
  const VariableTable& variables = *state->variables();
  ProgramState& used = program->state;
  if (used.num_trained == variables.num_trained()) return;
  used.num_trained = variables.num_trained();
  used.trained.clear();
  used.only_read.clear();
  const bool averages_models = state->synchroniser()->traits().averages_models();
  const CentralModel& model = *state->synchronisation()->model;
  // Otherwise there is nothing to keep together within a run.
  if (averages_models || (model.keeps_average() && !model.merges())) {
    for (const auto& [name, use] : program->analysis.variables) {
      if (use.trained) used.trained.push_back(variables.Find(name));
    }
  }
  if (averages_models) {
    for (const auto& [name, use] : program->analysis.variables) {
      const int id = variables.Find(name);
      if (use.trained || id < 0 || !variables.trained(id)) continue;
      (use.written ? used.trained : used.only_read).push_back(id);
    }
  }
  used.only_read_set = std::make_unique<TrainedSet>(
      state->num_learners(), ModelIndices(variables, used.only_read));
  auto set = std::make_unique<TrainedSet>(state->num_learners(),
                                          ModelIndices(variables, used.trained));
  if (used.set == nullptr) {
    set->set_iterations(used.first_iteration);
  } else {
    set->set_count(used.set->count());
  }
  used.set = std::move(set);
  used.set->program = program->Fingerprint();
  const auto compiled = program->compiled();
  const TaskTraits& traits = compiled->traits;
  used.set->host_gradients = compiled->host_gradients;
  const int num_updates = static_cast<int>(traits.corrects_itself.size());
  used.set->set_exchanges(traits.num_gradients, averages_models ? 0 : num_updates);
  for (int member = 0; member < std::min(num_updates, used.set->size()); ++member) {
    if (traits.corrects_itself[member]) used.set->set_corrects_itself(member);
  }
}

absl::Status LocateReplicas(TrainingState* state, const std::vector<int>& ids,
                            TrainedSet* set) {
  for (int j = 0; j < state->num_learners(); ++j) {
    for (int member = 0; member < set->size(); ++member) {
      TF_RETURN_IF_ERROR(state->variables()->Locate(ids[member], j, member, set));
    }
  }
  return absl::OkStatus();
}

absl::Status LocateAfterTask(TrainingState* state, Program* program, int learner) {
  Synchroniser* const synchroniser = state->synchroniser();
  TrainedSet* const set = program->state.set.get();
  for (int member = 0; member < set->size(); ++member) {
    if (synchroniser->updates(learner).updated(member)) continue;
    if (!synchroniser->updates(learner).EnterAll(member)) break;  // aborted by another
    TF_RETURN_IF_ERROR(state->variables()->Locate(program->state.trained[member],
                                                  learner, member, set));
  }
  return absl::OkStatus();
}

// Includes written variables if there are other hosts: they are merged before they are
// overwritten, as on hosts that have not written them yet.
absl::StatusOr<TrainedSet> LocateAll(TrainingState* state) {
  VariableTable* const variables = state->variables();
  std::vector<int> ids, changes;
  for (int id = 0; id < variables->size(); ++id) {
    if (!variables->trained(id)) continue;
    const bool written = !variables->replicas_up_to_date(id);
    if (written && (state->rounds() == nullptr || !variables->in_model(id))) continue;
    if (!written) changes.push_back(id);
    ids.push_back(id);
  }
  TrainedSet all(state->num_learners(), ModelIndices(*variables, ids));
  TF_RETURN_IF_ERROR(LocateReplicas(state, ids, &all));
  variables->MarkLearned(changes, {});
  return all;
}

absl::Status ResetUntrainedReads(TrainingState* state, Program* program, int active) {
  TrainedSet* const set = program->state.only_read_set.get();
  if (set == nullptr || set->size() == 0) return absl::OkStatus();
  TF_RETURN_IF_ERROR(LocateReplicas(state, program->state.only_read, set));
  state->synchroniser()->ResetNonParticipants(*set, active);
  return absl::OkStatus();
}

absl::Status MakeReplicasEqual(TrainingState* state, Program* program,
                               const std::vector<int>& up_to_date) {
  if (up_to_date.empty()) return absl::OkStatus();  // there was no data
  for (int j = 0; j < state->num_learners(); ++j) {
    if (std::binary_search(up_to_date.begin(), up_to_date.end(), j)) continue;
    TF_RETURN_IF_ERROR(state->variables()->CopyReplicas(program->state.written,
                                                        up_to_date.front(), j));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
