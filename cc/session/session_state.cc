// Trainer::SaveState and Trainer::LoadState: everything a session needs to go on later,
// bit for bit, from where it is.
//
// A state holds the value of every variable of the graph under the variable's own name,
// as Saver writes it (trained variables: the central model), and beside that
//
//   _tensorbow/format, settings, counters     what it is; see below
//   _tensorbow/learner/<j>/variable/<name>    learner j's replica
//   _tensorbow/learner/<j>/random_*           its streams of random numbers
//   _tensorbow/z/<name>, z_prev/<name>        flat, in the accumulation type
//   _tensorbow/average/<name>                 the moving average of z, likewise
//   _tensorbow/run*                           each learning run's progress
//
// No node can have such a name.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/learner/variable_storage.h"
#include "cc/rewrite/random_state.h"
#include "cc/session/state_file.h"
#include "cc/session/trainer.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int64_t kFormat = 1;

constexpr char kFormatKey[] = "_tensorbow/format";
// [n, 2]: names and values of the settings that a session must share with the state.
constexpr char kSettingsKey[] = "_tensorbow/settings";
constexpr char kCountersKey[] = "_tensorbow/counters";
// Names of all variables, and which of them have a value.
constexpr char kVariablesKey[] = "_tensorbow/variables";
constexpr char kInitialisedKey[] = "_tensorbow/initialised";
// Names of the variables that learners have copies of, and [n, 3] whether each is
// trained, is a generator, has its replicas here.
constexpr char kReplicatedKey[] = "_tensorbow/replicated";
constexpr char kReplicatedFlagsKey[] = "_tensorbow/replicated_flags";
// Keys of the learning runs, and [n, 3] iterations, rate_dropped, restart_pending.
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

using Settings = std::vector<std::pair<std::string, std::string>>;

// In the user's words (tensorbow.Options).
Settings SettingsOf(const Options& options, int num_learners) {
  Settings settings = {
      {"learners_per_device", absl::StrCat(num_learners)},
      {"synchroniser", options.algorithm == Options::Algorithm::kSma ? "SMA"
                       : options.algorithm == Options::Algorithm::kSsgd
                           ? "SSGD"
                           : "Independent"},
  };
  if (options.algorithm == Options::Algorithm::kSma) {
    const double alpha = options.alpha > 0 ? options.alpha : 1.0 / num_learners;
    settings.emplace_back("alpha", absl::StrCat(alpha));
    settings.emplace_back("momentum", options.momentum.has_value()
                                          ? absl::StrCat(*options.momentum)
                                          : "auto");
    settings.emplace_back("sync_period", absl::StrCat(options.sync_period));
  }
  if (options.algorithm != Options::Algorithm::kIndependent) {
    settings.emplace_back(
        "ema_decay", options.ema_decay > 0 ? absl::StrCat(options.ema_decay) : "None");
  }
  return settings;
}

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

std::string FirstFew(const std::vector<std::string>& names) {
  constexpr size_t kFew = 5;
  const auto end = names.begin() + std::min(kFew, names.size());
  return absl::StrCat("'", absl::StrJoin(names.begin(), end, "', '"), "'",
                      names.size() > kFew ? ", …" : "");
}

// The variables of a graph, by name.
using Variables = std::map<std::string, const tf::NodeDef*>;
Variables ByName(const std::vector<const tf::NodeDef*>& nodes) {
  Variables variables;
  for (const tf::NodeDef* node : nodes) variables[node->name()] = node;
  return variables;
}

absl::Status CheckSettings(StateReader* state, const Settings& wanted) {
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> flat,
                      ReadStrings(state, kSettingsKey));
  Settings saved;
  for (size_t i = 0; i + 1 < flat.size(); i += 2)
    saved.emplace_back(flat[i], flat[i + 1]);
  if (saved == wanted) return absl::OkStatus();
  auto text = [](const Settings& settings) {
    return absl::StrJoin(settings, ", ", absl::PairFormatter("="));
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "The saved state is of a session with ", text(saved), "; this session has ",
      text(wanted), ". Create the session with the options it was saved with."));
}

absl::Status CheckNames(const std::vector<std::string>& saved,
                        const Variables& variables) {
  std::vector<std::string> unknown, missing;
  for (const std::string& name : saved) {
    if (variables.count(name) == 0) unknown.push_back(name);
  }
  const std::set<std::string> known(saved.begin(), saved.end());
  for (const auto& [name, node] : variables) {
    if (known.count(name) == 0) missing.push_back(name);
  }
  if (unknown.empty() && missing.empty()) return absl::OkStatus();
  std::string text = "The saved state is of another graph: ";
  if (!unknown.empty()) {
    absl::StrAppend(&text, "it has ", unknown.size(),
                    " variables that this graph has not (", FirstFew(unknown), ")");
  }
  if (!missing.empty()) {
    absl::StrAppend(&text, unknown.empty() ? "" : " and ", "it lacks ", missing.size(),
                    " that this graph has (", FirstFew(missing), ")");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(text, ". Build the graph that was saved, the optimiser included."));
}

absl::Status CheckValue(const tf::NodeDef& node, const tf::Tensor& value) {
  tf::DataType dtype;
  tf::PartialTensorShape shape;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "dtype", &dtype));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "shape", &shape));
  // An empty shape is how the oldest kind of variable says that it does not know it.
  const bool unknown = node.op() == "Variable" && shape.dims() == 0;
  if (dtype == value.dtype() && (unknown || shape.IsCompatibleWith(value.shape()))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "The saved state has variable '", node.name(), "' with type ",
      tf::DataTypeString(value.dtype()), " and shape ", value.shape().DebugString(),
      "; in this graph it has type ", tf::DataTypeString(dtype), " and shape ",
      shape.DebugString(), ". Build the graph that was saved."));
}

absl::Status SaveCentral(const std::vector<const tf::NodeDef*>& nodes,
                         tf::Device* device, StateWriter* state) {
  std::vector<std::string> names;
  std::vector<bool> initialised;
  for (const tf::NodeDef* node : nodes) {
    VariableStorage central;
    TF_RETURN_IF_ERROR(VariableStorage::Open(*node, node->attr().at("container").s(),
                                             device, /*create=*/false, &central));
    names.push_back(node->name());
    initialised.push_back(false);
    if (central.mu() == nullptr) continue;
    tf::tf_shared_lock lock(*central.mu());
    if (!central.initialised()) continue;
    initialised.back() = true;
    TF_RETURN_IF_ERROR(state->Add(node->name(), central.value()));
  }
  TF_RETURN_IF_ERROR(state->Add(kVariablesKey, StringVector(names)));
  return state->Add(kInitialisedKey, Vector(initialised));
}

absl::Status SaveReplicas(ReplicatedVariables* variables, StateWriter* state) {
  std::vector<std::string> names;
  std::vector<bool> flags;
  for (int id = 0; id < variables->size(); ++id) {
    TF_ASSIGN_OR_RETURN(const ReplicaState variable, variables->GetState(id));
    names.push_back(variable.name);
    flags.insert(flags.end(),
                 {variable.trained, variable.generator, !variable.replicas.empty()});
    for (size_t j = 0; j < variable.replicas.size(); ++j) {
      TF_RETURN_IF_ERROR(state->Add(ReplicaKey(static_cast<int>(j), variable.name),
                                    variable.replicas[j]));
    }
    if (variable.z.IsInitialized()) {
      TF_RETURN_IF_ERROR(state->Add(ModelKey("z", variable.name), variable.z));
      TF_RETURN_IF_ERROR(
          state->Add(ModelKey("z_prev", variable.name), variable.z_prev));
      TF_RETURN_IF_ERROR(state->Add(ModelKey("z_iterations", variable.name),
                                    Vector<int64_t>({variable.model_iterations})));
    }
    if (variable.average.IsInitialized()) {
      TF_RETURN_IF_ERROR(
          state->Add(ModelKey("average", variable.name), variable.average));
    }
  }
  TF_RETURN_IF_ERROR(state->Add(kReplicatedKey, StringVector(names)));
  return state->Add(kReplicatedFlagsKey, Table(flags, 3));
}

absl::Status ReadReplicas(StateReader* state, const Variables& variables,
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
    if (state->Contains(ModelKey("z", names[i]))) {
      TF_RETURN_IF_ERROR(state->Read(ModelKey("z", names[i]), &variable.z));
      TF_RETURN_IF_ERROR(state->Read(ModelKey("z_prev", names[i]), &variable.z_prev));
      TF_ASSIGN_OR_RETURN(
          const std::vector<int64_t> iterations,
          ReadValues<int64_t>(state, ModelKey("z_iterations", names[i]), 1));
      variable.model_iterations = iterations[0];
    }
    if (state->Contains(ModelKey("average", names[i]))) {
      TF_RETURN_IF_ERROR(state->Read(ModelKey("average", names[i]), &variable.average));
    }
    replicated->push_back(std::move(variable));
  }
  return absl::OkStatus();
}

using Positions = std::map<std::string, RandomStreams::Position>;

absl::Status SaveRandom(int learner, const Positions& positions, StateWriter* state) {
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

absl::Status SaveProgress(const std::map<std::string, RunProgress>& runs,
                          StateWriter* state) {
  std::vector<std::string> keys;
  std::vector<int64_t> progress;
  for (const auto& [key, run] : runs) {
    TF_RETURN_IF_ERROR(state->Add(RatesKey(static_cast<int64_t>(keys.size())),
                                  Vector(run.last_rates)));
    keys.push_back(key);
    progress.insert(progress.end(),
                    {run.iterations, run.rate_dropped, run.restart_pending});
  }
  TF_RETURN_IF_ERROR(state->Add(kRunsKey, StringVector(keys)));
  return state->Add(kRunProgressKey, Table(progress, 3));
}

absl::Status ReadProgress(StateReader* state,
                          std::map<std::string, RunProgress>* runs) {
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                      ReadStrings(state, kRunsKey));
  const int64_t count = static_cast<int64_t>(keys.size());
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> progress,
                      ReadValues<int64_t>(state, kRunProgressKey, 3 * count));
  for (int64_t i = 0; i < count; ++i) {
    RunProgress& run = (*runs)[keys[i]];
    run.iterations = progress[3 * i];
    run.rate_dropped = progress[3 * i + 1] != 0;
    run.restart_pending = progress[3 * i + 2] != 0;
    TF_ASSIGN_OR_RETURN(run.last_rates, ReadValues<double>(state, RatesKey(i)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Trainer::SaveState(const std::vector<const tf::NodeDef*>& nodes,
                                const std::string& path) {
  turns_.Take(/*waits=*/false);
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  std::unique_ptr<StateWriter> state;
  TF_RETURN_IF_ERROR(StateWriter::Open(path, &state));
  NoteLateWrites();
  TF_RETURN_IF_ERROR(variables_->PublishAll());

  tf::Tensor format(tf::DT_INT64, {});
  format.scalar<int64_t>()() = kFormat;
  TF_RETURN_IF_ERROR(state->Add(kFormatKey, format));
  std::vector<std::string> settings;
  for (const auto& [name, value] : SettingsOf(options_, num_learners())) {
    settings.insert(settings.end(), {name, value});
  }
  TF_RETURN_IF_ERROR(state->Add(kSettingsKey, StringVector(settings)));
  TF_RETURN_IF_ERROR(state->Add(
      kCountersKey, Vector<int64_t>({iterations_.load(), learning_tasks_.load(),
                                     samples_seen_.load()})));
  TF_RETURN_IF_ERROR(SaveCentral(nodes, learners_.central_device(), state.get()));
  TF_RETURN_IF_ERROR(SaveReplicas(variables_.get(), state.get()));
  for (int j = 0; j < num_learners(); ++j) {
    TF_RETURN_IF_ERROR(
        SaveRandom(j, learners_[j].device()->random_streams().Get(), state.get()));
  }
  TF_RETURN_IF_ERROR(
      SaveProgress(progress_.Get(restarts_requested_.load()), state.get()));
  TF_RETURN_IF_ERROR(state->Commit());

  const std::vector<std::string> hidden = progress_.HiddenRandomOps();
  if (!hidden.empty()) {
    warn_(absl::StrCat(
        "The saved state lacks the random state of ", FirstFew(hidden),
        ": a session that loads it draws other numbers there. Ops that are saved are "
        "uniform, normal and truncated normal ones outside of functions, with one "
        "learner only if Options(seed=...) is given; tf.random.Generator and stateless "
        "ops need no saving of their own."));
  }
  return absl::OkStatus();
}

absl::Status Trainer::LoadState(const std::vector<const tf::NodeDef*>& nodes,
                                const std::string& path) {
  // First everything is read and checked, then it is set.
  std::unique_ptr<StateReader> state;
  TF_RETURN_IF_ERROR(StateReader::Open(path, &state));
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> format,
                      ReadValues<int64_t>(state.get(), kFormatKey, 1));
  if (format[0] != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("The saved state has format ", format[0], "; wanted ", kFormat,
                     ". Load it with the TensorBow that saved it."));
  }
  const Variables variables = ByName(nodes);
  TF_RETURN_IF_ERROR(CheckSettings(state.get(), SettingsOf(options_, num_learners())));
  TF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ReadStrings(state.get(), kVariablesKey));
  TF_RETURN_IF_ERROR(CheckNames(names, variables));
  TF_ASSIGN_OR_RETURN(const std::vector<bool> initialised,
                      ReadValues<bool>(state.get(), kInitialisedKey,
                                       static_cast<int64_t>(names.size())));
  std::map<std::string, tf::Tensor> central;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!initialised[i]) continue;
    tf::Tensor& value = central[names[i]];
    TF_RETURN_IF_ERROR(state->Read(names[i], &value));
    TF_RETURN_IF_ERROR(CheckValue(*variables.at(names[i]), value));
  }
  TF_ASSIGN_OR_RETURN(const std::vector<int64_t> counters,
                      ReadValues<int64_t>(state.get(), kCountersKey, 3));
  std::vector<ReplicaState> replicated;
  TF_RETURN_IF_ERROR(ReadReplicas(state.get(), variables, num_learners(), &replicated));
  std::vector<Positions> positions(num_learners());
  for (int j = 0; j < num_learners(); ++j) {
    TF_RETURN_IF_ERROR(ReadRandom(state.get(), j, &positions[j]));
  }
  std::map<std::string, RunProgress> progress;
  TF_RETURN_IF_ERROR(ReadProgress(state.get(), &progress));

  turns_.Take(/*waits=*/false);
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  std::vector<VariableUse> uses;
  for (const ReplicaState& variable : replicated) {
    VariableUse& use = uses.emplace_back();
    use.node = variables.at(variable.name);
    use.trained = variable.trained;
    use.generator = variable.generator;
  }
  TF_RETURN_IF_ERROR(variables_->SetStates(uses, replicated));
  tf::Device* const device = learners_.central_device();
  for (const auto& [name, value] : central) {
    const tf::NodeDef& node = *variables.at(name);
    VariableStorage storage;
    TF_RETURN_IF_ERROR(VariableStorage::Open(node, node.attr().at("container").s(),
                                             device, /*create=*/true, &storage));
    tf::mutex_lock variable_lock(*storage.mu());
    TF_RETURN_IF_ERROR(storage.Assign(value, {device->GetAllocator({})}));
  }
  {
    absl::MutexLock late_writes_lock(&late_writes_mu_);
    late_writes_.clear();
  }
  iterations_.store(counters[0]);
  learning_tasks_.store(counters[1]);
  samples_seen_.store(counters[2]);
  for (int j = 0; j < num_learners(); ++j) {
    learners_[j].device()->random_streams().Set(positions[j]);
  }
  progress_.Set(std::move(progress), restarts_requested_.load());
  return absl::OkStatus();
}

}  // namespace tensorbow
