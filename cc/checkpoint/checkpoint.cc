#include "cc/checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/checkpoint/checks.h"
#include "cc/checkpoint/settings.h"
#include "cc/checkpoint/state_file.h"
#include "cc/learner/variable_storage.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

std::map<std::string, const tf::NodeDef*> ByName(
    const std::vector<const tf::NodeDef*>& nodes) {
  std::map<std::string, const tf::NodeDef*> variables;
  for (const tf::NodeDef* node : nodes) variables[node->name()] = node;
  return variables;
}

// Adds the central values, which share the variables' buffers.
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

// ------------------------------------------------------------------------ saving

absl::StatusOr<SavedState> Checkpoint::Collect(const Nodes& nodes) {
  const HostRounds::Counts own = state_->counters().Get();
  const HostRounds::Counts others = hosts_->counts();
  LearnerGroup& learners = state_->learners();
  SavedState saved;
  saved.num_learners = learners.size();
  saved.settings = SettingsOf(state_->options(), learners.size());
  saved.choice = state_->choice();
  saved.iterations = own.iterations + others.iterations;
  saved.learning_tasks = own.tasks + others.tasks;
  saved.samples_seen = own.rows + others.rows;
  TF_RETURN_IF_ERROR(state_->ApplyRestarts());
  VariableTable* const variables = state_->variables();
  if (variables != nullptr) TF_RETURN_IF_ERROR(variables->PublishAll());
  TF_RETURN_IF_ERROR(GetCentral(nodes, learners.central_device(), &saved));
  for (int id = 0; variables != nullptr && id < variables->size(); ++id) {
    TF_ASSIGN_OR_RETURN(ReplicaState variable, variables->GetState(id));
    saved.replicated.push_back(std::move(variable));
  }
  for (int j = 0; j < learners.size(); ++j) {
    saved.random.push_back(learners[j].device()->random_streams().Get());
  }
  saved.progress = state_->progress().Get();
  Synchronisation* const synchronisation = state_->synchronisation();
  if (synchronisation != nullptr && synchronisation->adaptive != nullptr) {
    saved.mega_batch = synchronisation->adaptive->batches().Get();
  }
  return saved;
}

absl::Status Checkpoint::Save(const Nodes& nodes, const std::string& path) {
  const Turn turn(state_);
  state_->MarkWrites();
  TF_RETURN_IF_ERROR(hosts_->Enter("save_state", path));
  TF_ASSIGN_OR_RETURN(const SavedState saved, Collect(nodes));
  TF_RETURN_IF_ERROR(state_->rounds() == nullptr ? WriteState(saved, path)
                                                 : SavePart(saved, path));
  WarnOfHiddenRandomOps();
  return absl::OkStatus();
}

void Checkpoint::WarnOfHiddenRandomOps() {
  const std::vector<std::string> hidden = state_->progress().HiddenRandomOps();
  if (hidden.empty()) return;
  state_->warn()(absl::StrCat(
      "The saved state lacks the random state of ", FirstFew(hidden),
      ": a session that loads it draws other random numbers there. Use "
      "tf.random.Generator, stateless ops, or uniform, normal and truncated normal "
      "ops "
      "outside of functions (with one learner, give Options(seed=...), too)."));
}

std::string Checkpoint::PathOfHost(const std::string& path) const {
  if (state_->rounds() == nullptr) return path;
  return absl::StrCat(path, "-host", hosts_->place());
}

absl::Status Checkpoint::SavePart(const SavedState& saved, const std::string& path) {
  const absl::StatusOr<int64_t> own = StateReader::Current(PathOfHost(path));
  TF_ASSIGN_OR_RETURN(const auto saves, hosts_->Gather(own.value_or(0)));
  int64_t last = 0;
  for (const auto& [host, save] : saves) last = std::max(last, save);
  return WritePart(saved, PathOfHost(path), last, [this](const absl::Status& written) {
    return hosts_->AgreeOnOutcome("save", written);
  });
}

// ----------------------------------------------------------------------- loading

absl::Status Checkpoint::AgreeOnSave(const std::string& path) {
  if (state_->rounds() == nullptr) return absl::OkStatus();
  TF_RETURN_IF_ERROR(hosts_->Enter("load_state", path));
  const absl::StatusOr<int64_t> own = StateReader::Current(PathOfHost(path));
  TF_ASSIGN_OR_RETURN(const auto saves, hosts_->Gather(own.value_or(0)));
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto least = std::min_element(saves.begin(), saves.end(), less);
  const int64_t common = least->second;
  const int64_t last = std::max_element(saves.begin(), saves.end(), less)->second;
  absl::Status found = own.status();
  if (found.ok() && common == 0 && last > 0) {
    found = absl::FailedPreconditionError(absl::StrCat(
        "Host ", least->first, " has no part of the saved state '", path,
        "', but other hosts have theirs. Give every host the files that it saved"));
  } else if (found.ok() && common > 0) {
    found = StateReader::GoBackTo(PathOfHost(path), common);
  }
  return hosts_->AgreeOnOutcome("find", found);
}

absl::Status Checkpoint::CheckChoice(const Choice& saved) {
  const Synchronisation* const synchronisation = state_->synchronisation();
  if (saved.algorithm == Options::Algorithm::kAuto || synchronisation == nullptr ||
      synchronisation->choice == saved) {
    return absl::OkStatus();
  }
  const auto text = [](const Choice& choice) {
    return absl::StrCat(choice.name(), " (momentum ", choice.momentum, ")");
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "This session has trained with another synchroniser than the saved state. Load "
      "the state into a new session, before its first learning run. Saved is ",
      text(saved), ", here is ", text(synchronisation->choice), "."));
}

absl::StatusOr<SavedState> Checkpoint::Read(const VariableNodes& variables,
                                            const std::string& path) {
  TF_RETURN_IF_ERROR(AgreeOnSave(path));
  absl::StatusOr<SavedState> read = ReadState(
      PathOfHost(path),
      [this](int learners) { return SettingsOf(state_->options(), learners); },
      variables);
  absl::Status checked = read.status();
  if (checked.ok()) checked = CheckChoice(read->choice);
  const int num_learners = state_->num_learners();
  if (checked.ok() && state_->rounds() != nullptr &&
      read->num_learners != num_learners) {
    checked = absl::FailedPreconditionError(
        absl::StrCat("The saved state is of hosts with ", read->num_learners,
                     " learners each; this session has ", num_learners,
                     ". Create the session with as many"));
  }
  TF_RETURN_IF_ERROR(hosts_->AgreeOnOutcome("load", checked));
  TF_RETURN_IF_ERROR(hosts_->BeginLoad());
  return read;
}

absl::Status Checkpoint::SetLearners(int num_learners) {
  if (num_learners == state_->num_learners()) return absl::OkStatus();
  LearnerGroup& learners = state_->learners();
  const int devices = learners.SizeOf({1, 1});
  if (num_learners % devices != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "The devices cannot share the learners of the saved state equally. Load it "
        "with another number of devices: got ",
        devices, " for ", num_learners, " learners"));
  }
  TF_ASSIGN_OR_RETURN(const Layout layout, learners.LayoutOf(num_learners / devices));
  return state_->SetLayout(layout);
}

absl::Status Checkpoint::SetVariables(const VariableNodes& variables,
                                      const SavedState& saved) {
  const bool had_algorithm = state_->synchronisation() != nullptr;
  if (!had_algorithm && saved.choice.algorithm != Options::Algorithm::kAuto) {
    TF_RETURN_IF_ERROR(state_->SetAlgorithm(saved.choice));
    hosts_->AlgorithmChosen();
  }
  std::vector<VariableUse> uses;
  for (const ReplicaState& variable : saved.replicated) {
    VariableUse& use = uses.emplace_back();
    use.node = variables.at(variable.name);
    use.trained = variable.trained;
    use.generator = variable.generator;
  }
  if (state_->variables() == nullptr) return absl::OkStatus();
  TF_RETURN_IF_ERROR(state_->variables()->PublishReleased());
  const absl::Status set = state_->variables()->SetStates(uses, saved.replicated);
  if (!set.ok() && !had_algorithm) state_->ClearAlgorithm();
  return set;
}

absl::Status Checkpoint::SetProgress(SavedState saved) {
  const HostRounds::Counts others = hosts_->counts();
  state_->counters().Set({saved.iterations - others.iterations,
                          saved.learning_tasks - others.tasks,
                          saved.samples_seen - others.rows});
  for (int j = 0; j < state_->num_learners(); ++j) {
    state_->learners()[j].device()->random_streams().Set(saved.random[j]);
  }
  state_->progress().Set(std::move(saved.progress));
  if (!saved.mega_batch.empty() &&
      !state_->synchronisation()->adaptive->batches().Set(saved.mega_batch)) {
    return absl::DataLossError("The saved sizes of batches make no sense");
  }
  hosts_->CountersLoaded();
  state_->DropRestarts();
  return absl::OkStatus();
}

absl::Status Checkpoint::Load(const Nodes& nodes, const std::string& path) {
  const VariableNodes variables = ByName(nodes);
  const Turn turn(state_);
  // First everything is read and checked, then it is set.
  TF_ASSIGN_OR_RETURN(SavedState saved, Read(variables, path));
  TF_RETURN_IF_ERROR(SetLearners(saved.num_learners));
  TF_RETURN_IF_ERROR(SetVariables(variables, saved));
  LearnerGroup& learners = state_->learners();
  TF_RETURN_IF_ERROR(SetCentral(variables, saved, learners.central_device()));
  state_->writes().TakeWritten();  // they are overwritten
  return SetProgress(std::move(saved));
}

}  // namespace tensorbow
