#include "cc/checkpoint/saved_state.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cc/checkpoint/checks.h"
#include "cc/checkpoint/state_file.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int64_t kFormat = 4;

constexpr char kFormatKey[] = "_tensorbow/format";
// [n, 2]: names and values of the settings that a session must share with the state.
constexpr char kSettingsKey[] = "_tensorbow/settings";
constexpr char kLearnersKey[] = "_tensorbow/num_learners";
// The synchroniser, and the central model's momentum.
constexpr char kChoiceKey[] = "_tensorbow/choice";
constexpr char kMomentumKey[] = "_tensorbow/momentum";
constexpr char kCountersKey[] = "_tensorbow/counters";
constexpr char kMegaBatchKey[] = "_tensorbow/mega_batch";
// Names of all variables, and which of them have a value.
constexpr char kVariablesKey[] = "_tensorbow/variables";
constexpr char kInitialisedKey[] = "_tensorbow/initialised";
// Names of the variables that learners have copies of, and [n, 3] whether each is
// trained, is a generator, has its replicas here.
constexpr char kReplicatedKey[] = "_tensorbow/replicated";
constexpr char kReplicatedFlagsKey[] = "_tensorbow/replicated_flags";
// Keys of the learning runs, and [n, 2] iterations, rate_dropped.
constexpr char kRunsKey[] = "_tensorbow/runs";
constexpr char kRunProgressKey[] = "_tensorbow/run_progress";

std::string RatesKey(int64_t run) {
  return absl::StrCat("_tensorbow/run/", run, "/last_rates");
}
std::string LearnerKey(int learner, absl::string_view what) {
  return absl::StrCat("_tensorbow/learner/", learner, "/", what);
}
std::string ReplicaKey(int learner, absl::string_view variable) {
  return LearnerKey(learner, absl::StrCat("variable/", variable));
}
std::string ModelKey(absl::string_view what, absl::string_view variable) {
  return absl::StrCat("_tensorbow/", what, "/", variable);
}

using Settings = SavedState::Settings;
using Positions = std::map<std::string, RandomStreams::Position>;

tf::Tensor StringVector(const std::vector<std::string>& strings) {
  tf::Tensor tensor(tf::DT_STRING, {static_cast<int64_t>(strings.size())});
  std::copy(strings.begin(), strings.end(), tensor.flat<tf::tstring>().data());
  return tensor;
}

template <typename T>
tf::Tensor Table(const std::vector<T>& values, int64_t columns) {
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  tf::Tensor tensor(tf::DataTypeToEnum<T>::value, tf::TensorShape({rows, columns}));
  std::copy(values.begin(), values.end(), tensor.flat<T>().data());
  return tensor;
}

template <typename T>
tf::Tensor Vector(const std::vector<T>& values) {
  tf::Tensor tensor(tf::DataTypeToEnum<T>::value,
                    tf::TensorShape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.flat<T>().data());
  return tensor;
}

// Reads a tensor of type T with `count` elements (-1: any number).
template <typename T>
absl::StatusOr<std::vector<T>> ReadValues(StateReader* state, const std::string& key,
                                          int64_t count = -1) {
  tf::Tensor tensor;
  TF_RETURN_IF_ERROR(state->Read(key, &tensor));
  if (tensor.dtype() != tf::DataTypeToEnum<T>::value ||
      (count >= 0 && tensor.NumElements() != count)) {
    return absl::DataLossError(absl::StrCat(
        "'", key,
        "' of the saved state has an unexpected form: ", tensor.DebugString(0)));
  }
  const auto values = tensor.flat<T>();
  return std::vector<T>(values.data(), values.data() + values.size());
}

absl::StatusOr<std::vector<std::string>> ReadStrings(StateReader* state,
                                                     const std::string& key) {
  TF_ASSIGN_OR_RETURN(const std::vector<tf::tstring> strings,
                      ReadValues<tf::tstring>(state, key));
  return std::vector<std::string>(strings.begin(), strings.end());
}

absl::StatusOr<Settings> ReadSettings(StateReader* state) {
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> flat,
                      ReadStrings(state, kSettingsKey));
  Settings saved;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) {
    saved.emplace_back(flat[i], flat[i + 1]);
  }
  return saved;
}

absl::Status WriteCentral(const SavedState& saved, StateWriter* state) {
  std::vector<bool> initialised;
  for (const std::string& name : saved.variables) {
    const auto value = saved.central.find(name);
    initialised.push_back(value != saved.central.end());
    if (initialised.back()) TF_RETURN_IF_ERROR(state->Add(name, value->second));
  }
  TF_RETURN_IF_ERROR(state->Add(kVariablesKey, StringVector(saved.variables)));
  return state->Add(kInitialisedKey, Vector(initialised));
}

absl::Status ReadCentral(StateReader* state, const VariableNodes& variables,
                         SavedState* saved) {
  TF_ASSIGN_OR_RETURN(saved->variables, ReadStrings(state, kVariablesKey));
  const std::vector<std::string>& names = saved->variables;
  TF_RETURN_IF_ERROR(CheckNames(names, variables));
  TF_ASSIGN_OR_RETURN(
      const std::vector<bool> initialised,
      ReadValues<bool>(state, kInitialisedKey, static_cast<int64_t>(names.size())));
  for (size_t i = 0; i < names.size(); ++i) {
    if (!initialised[i]) continue;
    tf::Tensor& value = saved->central[names[i]];
    TF_RETURN_IF_ERROR(state->Read(names[i], &value));
    TF_RETURN_IF_ERROR(CheckValue(*variables.at(names[i]), value));
  }
  return absl::OkStatus();
}

absl::Status WriteHeader(const SavedState& saved, StateWriter* state) {
  tf::Tensor format(tf::DT_INT64, {});
  format.scalar<int64_t>()() = kFormat;
  TF_RETURN_IF_ERROR(state->Add(kFormatKey, format));
  std::vector<std::string> settings;
  for (const auto& [name, value] : saved.settings) {
    settings.insert(settings.end(), {name, value});
  }
  TF_RETURN_IF_ERROR(state->Add(kSettingsKey, StringVector(settings)));
  TF_RETURN_IF_ERROR(state->Add(kLearnersKey, Vector<int64_t>({saved.num_learners})));
  TF_RETURN_IF_ERROR(state->Add(kChoiceKey, StringVector({saved.choice.name()})));
  TF_RETURN_IF_ERROR(state->Add(kMomentumKey, Vector<double>({saved.choice.momentum})));
  if (!saved.mega_batch.empty()) {
    TF_RETURN_IF_ERROR(state->Add(kMegaBatchKey, Vector<int64_t>(saved.mega_batch)));
  }
  return state->Add(
      kCountersKey,
      Vector<int64_t>({saved.iterations, saved.learning_tasks, saved.samples_seen}));
}

absl::Status ReadHeader(StateReader* state,
                        const std::function<Settings(int num_learners)>& settings,
                        SavedState* saved) {
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> format,
                      ReadValues<int64_t>(state, kFormatKey, 1));
  if (format[0] != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("The saved state has format ", format[0], "; wanted ", kFormat,
                     ". Load it with the TensorBow that saved it, and save its model "
                     "with tf.compat.v1.train.Saver to go on from there."));
  }
  TF_ASSIGN_OR_RETURN(saved->settings, ReadSettings(state));
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> learners,
                      ReadValues<int64_t>(state, kLearnersKey, 1));
  if (learners[0] < 1 || learners[0] > std::numeric_limits<int>::max()) {
    return absl::DataLossError(
        absl::StrCat("The saved state is of ", learners[0], " learners"));
  }
  saved->num_learners = static_cast<int>(learners[0]);
  TF_RETURN_IF_ERROR(CheckSettings(saved->settings, settings(saved->num_learners)));
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> choice,
                      ReadStrings(state, kChoiceKey));
  TF_ASSIGN_OR_RETURN(const std::vector<double> momentum,
                      ReadValues<double>(state, kMomentumKey, 1));
  saved->choice = ChoiceOfName(choice.empty() ? "" : choice[0]);
  saved->choice.momentum = momentum[0];
  const bool has_hosts =
      std::any_of(saved->settings.begin(), saved->settings.end(),
                  [](const auto& setting) { return setting.first == "hosts"; });
  if (saved->choice.algorithm == Options::Algorithm::kAdaptive &&
      (learners[0] > 1 || has_hosts)) {
    TF_ASSIGN_OR_RETURN(saved->mega_batch, ReadValues<int64_t>(state, kMegaBatchKey));
  }
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> counters,
                      ReadValues<int64_t>(state, kCountersKey, 3));
  saved->iterations = counters[0];
  saved->learning_tasks = counters[1];
  saved->samples_seen = counters[2];
  return absl::OkStatus();
}

// Lists the tensors of a replicated variable that the central model may keep, by name.
template <typename State>
auto ModelTensors(State* state) {
  using Pair = std::pair<const char*, decltype(&state->z)>;
  return std::array<Pair, 3>{
      {{"z", &state->z}, {"previous", &state->previous}, {"average", &state->average}}};
}

absl::Status WriteReplicas(const std::vector<ReplicaState>& replicated,
                           StateWriter* state) {
  std::vector<std::string> names;
  std::vector<bool> flags;
  for (const ReplicaState& variable : replicated) {
    names.push_back(variable.name);
    flags.insert(flags.end(),
                 {variable.trained, variable.generator, !variable.replicas.empty()});
    for (size_t j = 0; j < variable.replicas.size(); ++j) {
      TF_RETURN_IF_ERROR(state->Add(ReplicaKey(static_cast<int>(j), variable.name),
                                    variable.replicas[j]));
    }
    if (!variable.replicas.empty()) {
      TF_RETURN_IF_ERROR(state->Add(ModelKey("learned_by", variable.name),
                                    Vector(variable.learned_by)));
    }
    if (variable.present.empty()) continue;  // the central model does not have it
    for (const auto& [what, tensor] : ModelTensors(&variable)) {
      if (tensor->NumElements() == 0) continue;
      TF_RETURN_IF_ERROR(state->Add(ModelKey(what, variable.name), *tensor));
    }
    TF_RETURN_IF_ERROR(state->Add(ModelKey("z_iterations", variable.name),
                                  Vector<int64_t>({variable.model_iterations})));
    TF_RETURN_IF_ERROR(
        state->Add(ModelKey("z_present", variable.name), Vector(variable.present)));
  }
  TF_RETURN_IF_ERROR(state->Add(kReplicatedKey, StringVector(names)));
  return state->Add(kReplicatedFlagsKey, Table(flags, 3));
}

// Reads of how many iterations a variable's z is, and of which learners.
absl::Status ReadWhoseZ(StateReader* state, int num_learners, ReplicaState* variable) {
  TF_ASSIGN_OR_RETURN(
      const std::vector<int64_t> iterations,
      ReadValues<int64_t>(state, ModelKey("z_iterations", variable->name), 1));
  variable->model_iterations = iterations[0];
  TF_ASSIGN_OR_RETURN(
      variable->present,
      ReadValues<int64_t>(state, ModelKey("z_present", variable->name)));
  if (variable->present.empty()) {
    return absl::DataLossError(absl::StrCat("The saved state has a central value of '",
                                            variable->name, "' of no learner"));
  }
  return CheckLearners(variable->name, variable->present, num_learners);
}

absl::Status ReadReplicas(StateReader* state, const VariableNodes& variables,
                          int num_learners, std::vector<ReplicaState>* replicated) {
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ReadStrings(state, kReplicatedKey));
  const int64_t count = static_cast<int64_t>(names.size());
  TF_ASSIGN_OR_RETURN(const std::vector<bool> flags,
                      ReadValues<bool>(state, kReplicatedFlagsKey, 3 * count));
  for (int64_t i = 0; i < count; ++i) {
    ReplicaState variable;
    variable.name = names[i];
    variable.trained = flags[3 * i];
    variable.generator = flags[3 * i + 1];
    const auto node = variables.find(names[i]);
    if (node == variables.end()) {
      return absl::DataLossError(
          absl::StrCat("The saved state has replicas of an unknown '", names[i], "'"));
    }
    for (int j = 0; flags[3 * i + 2] && j < num_learners; ++j) {
      tf::Tensor& replica = variable.replicas.emplace_back();
      TF_RETURN_IF_ERROR(state->Read(ReplicaKey(j, names[i]), &replica));
      TF_RETURN_IF_ERROR(CheckValue(*node->second, replica));
    }
    if (!variable.replicas.empty()) {
      TF_ASSIGN_OR_RETURN(variable.learned_by,
                          ReadValues<int64_t>(state, ModelKey("learned_by", names[i])));
      TF_RETURN_IF_ERROR(CheckLearners(names[i], variable.learned_by, num_learners));
    }
    for (const auto& [what, tensor] : ModelTensors(&variable)) {
      if (!state->Contains(ModelKey(what, names[i]))) continue;
      TF_RETURN_IF_ERROR(state->Read(ModelKey(what, names[i]), tensor));
    }
    if (state->Contains(ModelKey("z_iterations", names[i]))) {
      TF_RETURN_IF_ERROR(ReadWhoseZ(state, num_learners, &variable));
    }
    replicated->push_back(std::move(variable));
  }
  return absl::OkStatus();
}

absl::Status WriteRandom(int learner, const Positions& positions, StateWriter* state) {
  std::vector<std::string> names;
  std::vector<tf::uint64> values;
  for (const auto& [name, position] : positions) {
    names.push_back(name);
    values.insert(values.end(),
                  {position.key, position.counter[0], position.counter[1]});
  }
  TF_RETURN_IF_ERROR(
      state->Add(LearnerKey(learner, "random_streams"), StringVector(names)));
  return state->Add(LearnerKey(learner, "random_positions"), Table(values, 3));
}

absl::Status ReadRandom(StateReader* state, int learner, Positions* positions) {
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ReadStrings(state, LearnerKey(learner, "random_streams")));
  TF_ASSIGN_OR_RETURN(
      const std::vector<tf::uint64> values,
      ReadValues<tf::uint64>(state, LearnerKey(learner, "random_positions"),
                             3 * static_cast<int64_t>(names.size())));
  for (size_t i = 0; i < names.size(); ++i) {
    (*positions)[names[i]] = {values[3 * i], {values[3 * i + 1], values[3 * i + 2]}};
  }
  return absl::OkStatus();
}

absl::Status WriteProgress(const std::map<std::string, RunProgress>& runs,
                           StateWriter* state) {
  std::vector<std::string> keys;
  std::vector<int64_t> progress;
  for (const auto& [key, run] : runs) {
    TF_RETURN_IF_ERROR(state->Add(RatesKey(static_cast<int64_t>(keys.size())),
                                  Vector(run.last_rates)));
    keys.push_back(key);
    progress.insert(progress.end(), {run.iterations, run.rate_dropped});
  }
  TF_RETURN_IF_ERROR(state->Add(kRunsKey, StringVector(keys)));
  return state->Add(kRunProgressKey, Table(progress, 2));
}

absl::Status ReadProgress(StateReader* state,
                          std::map<std::string, RunProgress>* runs) {
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                      ReadStrings(state, kRunsKey));
  const int64_t count = static_cast<int64_t>(keys.size());
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> progress,
                      ReadValues<int64_t>(state, kRunProgressKey, 2 * count));
  for (int64_t i = 0; i < count; ++i) {
    RunProgress& run = (*runs)[keys[i]];
    run.iterations = progress[2 * i];
    run.rate_dropped = progress[2 * i + 1] != 0;
    TF_ASSIGN_OR_RETURN(run.last_rates, ReadValues<double>(state, RatesKey(i)));
  }
  return absl::OkStatus();
}

// Until it is on the disk.
absl::Status WriteTensors(const SavedState& saved, StateWriter* state) {
  TF_RETURN_IF_ERROR(WriteHeader(saved, state));
  TF_RETURN_IF_ERROR(WriteCentral(saved, state));
  TF_RETURN_IF_ERROR(WriteReplicas(saved.replicated, state));
  for (size_t j = 0; j < saved.random.size(); ++j) {
    TF_RETURN_IF_ERROR(WriteRandom(static_cast<int>(j), saved.random[j], state));
  }
  TF_RETURN_IF_ERROR(WriteProgress(saved.progress, state));
  return state->Finish();
}

}  // namespace

absl::Status WriteState(const SavedState& saved, const std::string& path) {
  std::unique_ptr<StateWriter> state;
  TF_RETURN_IF_ERROR(StateWriter::Open(path, /*after=*/0, &state));
  TF_RETURN_IF_ERROR(WriteTensors(saved, state.get()));
  return state->Commit(/*keeps_last=*/false);
}

absl::Status WritePart(const SavedState& saved, const std::string& path, int64_t last,
                       const AgreeOnSaving& agree) {
  std::unique_ptr<StateWriter> state;
  absl::Status written = StateWriter::Open(path, last, &state);
  if (written.ok()) written = WriteTensors(saved, state.get());
  TF_RETURN_IF_ERROR(agree(written));
  return state->Commit(/*keeps_last=*/true);
}

absl::StatusOr<SavedState> ReadState(
    const std::string& path, const std::function<Settings(int num_learners)>& settings,
    const VariableNodes& variables) {
  std::unique_ptr<StateReader> state;
  TF_RETURN_IF_ERROR(StateReader::Open(path, &state));
  SavedState saved;
  TF_RETURN_IF_ERROR(ReadHeader(state.get(), settings, &saved));
  const int num_learners = saved.num_learners;
  TF_RETURN_IF_ERROR(ReadCentral(state.get(), variables, &saved));
  TF_RETURN_IF_ERROR(
      ReadReplicas(state.get(), variables, num_learners, &saved.replicated));
  saved.random.resize(num_learners);
  for (int j = 0; j < num_learners; ++j) {
    TF_RETURN_IF_ERROR(ReadRandom(state.get(), j, &saved.random[j]));
  }
  TF_RETURN_IF_ERROR(ReadProgress(state.get(), &saved.progress));
  return saved;
}

}  // namespace tensorbow
