#include "cc/session/trainer.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cc/memory/learners_that_fit.h"
#include "cc/rewrite/fuse_products.h"
#include "cc/rewrite/fuse_updates.h"
#include "cc/rewrite/random_state.h"
#include "cc/rewrite/reduce_gradients.h"
#include "cc/rewrite/shapes.h"
#include "cc/synchroniser/independent.h"
#include "cc/synchroniser/sma.h"
#include "cc/synchroniser/ssgd.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/op_segment.h"
#include "tensorflow/core/platform/cpu_info.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// How long a learner polls for its neighbours (or for the next run) before it blocks.
constexpr std::chrono::microseconds kSpin(200);

// Where the user has not said how many.
constexpr int kLearnersPerAccelerator = 2;

// Momentum of the central model where the learners' optimiser has none of its own.
constexpr double kDefaultMomentum = 0.9;

// How long a central run waits for a learning run that may itself be waiting.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

// The node by which the central session is asked for the name of its kernels.
constexpr char kHandleNode[] = "TensorBow.session_handle";

std::vector<int> CpusOfThisProcess() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.resize(std::max(1, tf::port::NumSchedulableCPUs()), -1);
  return cpus;
}

int64_t NextStepId() {
  static std::atomic<int64_t> next{int64_t{1} << 40};
  return next.fetch_add(1);
}

// Starts a cancellation when its time is up.
class Deadline {
 public:
  Deadline(int64_t timeout_ms, tf::CancellationManager* cancellation) {
    if (timeout_ms <= 0) return;
    thread_ = std::thread([this, timeout_ms, cancellation] {
      if (over_.WaitForNotificationWithTimeout(absl::Milliseconds(timeout_ms))) return;
      expired_.store(true);
      cancellation->StartCancel();
    });
  }
  ~Deadline() { Stop(); }
  // Returns whether the time was up.
  bool Stop() {
    if (thread_.joinable()) {
      over_.Notify();
      thread_.join();
    }
    return expired_.load();
  }

 private:
  absl::Notification over_;
  std::atomic<bool> expired_{false};
  std::thread thread_;
};

// Tensors whose leading dimension tells how many rows of data a task took from an
// input pipeline. A queue's are known to have one, whatever their static shape.
struct RowSource {
  std::string tensor;
  bool has_rows;
};
std::vector<RowSource> RowSources(const std::vector<const tf::NodeDef*>& nodes) {
  std::vector<RowSource> sources;
  for (const tf::NodeDef* node : nodes) {
    const char* types = nullptr;
    bool has_rows = false;
    if (absl::StartsWith(node->op(), "IteratorGetNext") &&
        node->op() != "IteratorGetNextAsOptional") {
      types = "output_types";
    } else if (absl::StartsWith(node->op(), "QueueDequeueMany") ||
               absl::StartsWith(node->op(), "QueueDequeueUpTo")) {
      types = "component_types";
      has_rows = true;
    } else {
      continue;
    }
    const int outputs = node->attr().at(types).list().type_size();
    for (int i = 0; i < outputs; ++i) {
      sources.push_back({absl::StrCat(node->name(), ":", i), has_rows});
    }
  }
  return sources;
}

}  // namespace

class Trainer::Program {
 public:
  RunAnalysis analysis;
  RunSpec task_spec;  // what a task computes
  std::vector<FeedDeclaration> feeds;

  // Of the run's fetches, in order.
  struct Fetch {
    FetchDeclaration declaration;
    int task_fetch = -1;                    // its number among the task's fetches, or
    const tf::NodeDef* variable = nullptr;  // the variable it is
  };
  std::vector<Fetch> fetches;
  int rows_fetch = -1;  // the task's fetch that tells the rows of its data, or -1

  std::vector<int> variables;  // replicated ids: all,
  std::vector<int> written;    // those that tasks change,
  // Those the synchroniser keeps together: first what this program trains, in the order
  // of its analysis.
  std::vector<int> trained;
  int num_trained = -1;               // in the session, when `trained` was made
  int num_gradients = 0;              // averaged in a task
  std::vector<bool> corrects_itself;  // by `trained`, as far as this program trains
  double momentum = 0;

  std::vector<std::unique_ptr<Learner::Program>> learners;
  std::vector<std::string> hidden_random_ops;

  // The learning rates that may change: those that are fed, by feed, and a program
  // that evaluates the others on learner 0 (null if there are none).
  std::vector<int> fed_rates;
  std::unique_ptr<Learner::Program> rates;
  std::vector<double> last_rates;

  std::unique_ptr<TrainedSet> set;         // made in the first run
  bool rate_dropped = false;               // seen inside a run
  bool measured_memory = false;            // on accelerators, in the first run
  std::atomic<bool> told_of_feeds{false};  // that they cannot be divided
  int64_t restarts_seen = 0;
  int64_t first_iteration = 0;  // of the set, when it is made
};

struct Trainer::RunState {
  Program* program = nullptr;
  const std::vector<tf::Tensor>* feeds = nullptr;
  FeedPlan plan;
  bool ends_with_data = false;   // OutOfRange is the end of the data, not an error
  bool measures_memory = false;  // learner 0 does its first task alone
  absl::Notification measured;
  tf::CancellationManager* cancellation = nullptr;

  std::vector<TaskOutcome> outcomes;    // by task; fetches are empty where none
  std::vector<int64_t> task_iteration;  // by task
  std::vector<absl::Status> status;     // by learner
  std::vector<std::unique_ptr<tf::StepStats>> stats;  // by learner, when tracing
  std::vector<std::unique_ptr<tf::StepStatsCollector>> collectors;
};

namespace {

int NumLearners(const Options& options, AcceleratorBackend* accelerators) {
  if (accelerators != nullptr) {
    const int on_each = options.learners_per_device > 0 ? options.learners_per_device
                                                        : kLearnersPerAccelerator;
    return on_each * accelerators->num_devices();
  }
  return options.learners_per_device > 0 ? options.learners_per_device
                                         : static_cast<int>(CpusOfThisProcess().size());
}

}  // namespace

Trainer::Trainer(const tf::SessionOptions& session_options, const Options& options,
                 tf::Session* central, tf::Device* central_device,
                 AcceleratorBackend* accelerators, Warn warn)
    : session_options_(session_options),
      options_(options),
      central_(central),
      accelerators_(accelerators),
      warn_(std::move(warn)),
      model_(options.ema_decay),
      scheduler_(NumLearners(options, accelerators)) {
  environment_.options = &session_options_;
  environment_.central_device = central_device;
  environment_.host_runner = [this](std::function<void()> closure) {
    absl::call_once(host_pool_once_, [this] {
      host_pool_ = std::make_unique<tf::thread::ThreadPool>(
          session_options_.env, "tensorbow_host",
          std::max(2, tf::port::NumSchedulableCPUs()));
    });
    host_pool_->Schedule(std::move(closure));
  };
  environment_.shares_random_state =
      scheduler_.num_learners() == 1 && !options.seed.has_value();
  environment_.shared_kernel =
      [this, central_device](const std::shared_ptr<const tf::NodeProperties>& node,
                             tf::FunctionLibraryRuntime* runtime,
                             tf::OpKernel** kernel) {
        return central_device->op_segment()->FindOrCreate(
            central_handle_, node->node_def.name(), kernel,
            [&](tf::OpKernel** made) { return runtime->CreateKernel(node, made); });
      };
  using Recording = Options::TaskRecording;
  environment_.record_tasks =
      options.task_recording != Recording::kOff && options.sync_period == 1;
  if (options.task_recording == Recording::kOn) {
    environment_.recording_refused = [this](const std::string& why) {
      warn_(
          absl::StrCat("cuda_graphs=\"on\": learning tasks are executed op by op, "
                       "because ",
                       why));
    };
  }
}

absl::Status Trainer::Start() {
  if (accelerators_ != nullptr && environment_.recording_refused &&
      !environment_.record_tasks) {
    environment_.recording_refused(
        "with a sync_period above 1 not every task is the same");
  }
  TF_RETURN_IF_ERROR(MakeLearners());
  TF_RETURN_IF_ERROR(MakeSynchroniser());
  std::vector<Learner*> learners;
  for (const auto& learner : learners_) {
    learner->device()->set_synchroniser(synchroniser_.get());
    if (learner->accelerator() != nullptr) {
      learner->accelerator()->set_synchroniser(synchroniser_.get());
    }
    learners.push_back(learner.get());
  }
  absl::MutexLock lock(&mu_);
  variables_ = std::make_unique<ReplicatedVariables>(
      environment_.central_device, std::move(learners), &model_, synchroniser_.get());
  return absl::OkStatus();
}

absl::Status Trainer::MakeLearners() {
  const std::vector<int> cpus = CpusOfThisProcess();
  // Polling helps only if every learner has a core of its own.
  const bool fits = num_learners() <= static_cast<int>(cpus.size());
  spin_ = fits ? kSpin : std::chrono::microseconds(0);
  const int on_each =
      accelerators_ == nullptr ? 0 : num_learners() / accelerators_->num_devices();
  for (int j = 0; j < num_learners(); ++j) {
    const int cpu = options_.pin_threads && fits ? cpus[j] : -1;
    std::unique_ptr<AcceleratorDevice> accelerator;
    if (accelerators_ != nullptr) {
      TF_ASSIGN_OR_RETURN(
          accelerator,
          accelerators_->NewDevice(session_options_, environment_.central_device,
                                   j / on_each, j, on_each));
    }
    learners_.push_back(
        std::make_unique<Learner>(j, environment_, cpu, spin_, std::move(accelerator)));
  }
  return absl::OkStatus();
}

absl::Status Trainer::MakeSynchroniser() {
  using Algorithm = Options::Algorithm;
  const int count = num_learners();
  const double alpha = options_.alpha > 0 ? options_.alpha : 1.0 / count;
  if (count == 1 || options_.algorithm == Algorithm::kIndependent) {
    synchroniser_ = std::make_unique<Independent>(count, &model_, spin_);
  } else if (options_.algorithm == Algorithm::kSma && accelerators_ != nullptr) {
    std::vector<AcceleratorDevice*> devices;
    for (const auto& learner : learners_) devices.push_back(learner->accelerator());
    TF_ASSIGN_OR_RETURN(
        synchroniser_,
        accelerators_->NewSma(devices, &model_, spin_, alpha, options_.sync_period));
  } else if (options_.algorithm == Algorithm::kSma) {
    synchroniser_ =
        std::make_unique<Sma>(count, &model_, spin_, alpha, options_.sync_period);
  } else if (accelerators_ == nullptr) {
    synchroniser_ = std::make_unique<Ssgd>(count, &model_, spin_);
  } else {
    return absl::UnimplementedError(absl::StrCat(
        "Got the synchroniser SSGD for learners on ", accelerators_->type(),
        "s, where averaging gradients is not implemented. Use tensorbow.SMA(), or keep "
        "the session off them: ConfigProto(device_count={'",
        accelerators_->type(), "': 0})"));
  }
  return absl::OkStatus();
}

TaskDevices Trainer::Devices(tf::DeviceSet* all) {
  const tf::DeviceMgr* local = nullptr;
  TaskDevices devices;
  if (central_->LocalDeviceManager(&local).ok()) {
    for (tf::Device* device : local->ListDevices()) all->AddDevice(device);
  }
  all->set_client_device(environment_.central_device);
  devices.all = all;
  devices.cpu = environment_.central_device;
  if (accelerators_ != nullptr) {
    devices.accelerator = learners_[0]->accelerator()->device();
    all->AddDevice(devices.accelerator);
    devices.variables = &environment_.variable_devices;
  }
  return devices;
}

std::vector<std::string> Trainer::LearnerDevices() const {
  std::vector<std::string> devices;
  for (const auto& learner : learners_) {
    devices.push_back(learner->accelerator() != nullptr
                          ? learner->accelerator()->Description()
                          : learner->device()->name());
  }
  return devices;
}

absl::Status Trainer::CheckMemory() {
  if (accelerators_ == nullptr) return absl::OkStatus();
  AcceleratorDevice* const device = learners_[0]->accelerator();
  return CheckLearnersFit(device->PeakBytes(), device->LimitBytes(),
                          num_learners() / accelerators_->num_devices());
}

Trainer::~Trainer() = default;

void Trainer::Release() {
  for (auto& learner : learners_) learner->ReleaseKernels();
  absl::MutexLock lock(&mu_);
  variables_.reset();
}

// -------------------------------------------------------------------- compiling

absl::Status Trainer::Dissect(const ProgramGraph& graph, const RunSpec& spec,
                              const std::set<std::string>& sparse_feeds,
                              Program* program) {
  program->task_spec.feeds = spec.feeds;
  program->task_spec.targets = spec.targets;

  std::vector<const tf::NodeDef*> nodes;
  TF_RETURN_IF_ERROR(graph.Needed(spec, &nodes));
  const std::vector<RowSource> row_sources = RowSources(nodes);
  RunSpec described = spec;
  for (const RowSource& source : row_sources) {
    described.fetches.push_back(source.tensor);
  }
  const auto shapes = InferShapes(graph, described);

  // Programs feed more than a run needs; what it does not use says nothing about rows.
  std::set<std::string> used(spec.fetches.begin(), spec.fetches.end());
  for (const tf::NodeDef* node : nodes) {
    for (const std::string& input : node->input()) {
      const TensorName tensor = ParseTensor(input);
      if (!tensor.control) used.insert(absl::StrCat(tensor.node, ":", tensor.index));
    }
  }
  for (const std::string& name : spec.feeds) {
    FeedDeclaration feed;
    feed.name = name;
    feed.shape = shapes.at(name);
    using Division = FeedDeclaration::Division;
    if (options_.shard.count(name) > 0) {
      feed.division = Division::kShard;
    } else if (options_.replicate.count(name) > 0 || used.count(name) == 0) {
      feed.division = Division::kReplicate;
    } else if (sparse_feeds.count(name) > 0) {
      feed.division = Division::kSparse;
    }
    program->feeds.push_back(std::move(feed));
  }
  for (const std::string& name : spec.fetches) {
    Program::Fetch fetch;
    fetch.declaration.name = name;
    const tf::PartialTensorShape& shape = shapes.at(name);
    fetch.declaration.leading_dimension_unknown =
        shape.unknown_rank() || (shape.dims() > 0 && shape.dim_size(0) < 0);
    const auto chosen = options_.combine.find(name);
    if (chosen != options_.combine.end()) {
      fetch.declaration.combination = chosen->second;
    } else if (num_learners() > 1) {
      std::vector<std::string>* const targets = &program->task_spec.targets;
      const std::string variable = VariableReadBy(graph, name, targets);
      if (!variable.empty()) fetch.variable = graph.Find(variable);
    }
    if (fetch.variable == nullptr) {
      fetch.task_fetch = static_cast<int>(program->task_spec.fetches.size());
      program->task_spec.fetches.push_back(name);
    }
    program->fetches.push_back(std::move(fetch));
  }
  for (const auto& [name, has_rows] : row_sources) {
    const tf::PartialTensorShape& shape = shapes.at(name);
    if (!has_rows && (shape.unknown_rank() || shape.dims() == 0)) continue;
    if (std::count(spec.feeds.begin(), spec.feeds.end(), name) > 0) continue;
    program->rows_fetch = static_cast<int>(program->task_spec.fetches.size());
    program->task_spec.fetches.push_back(name);
    break;
  }
  return absl::OkStatus();
}

absl::Status Trainer::EnsureSharedKernels(const ProgramGraph& graph,
                                          const std::vector<std::string>& nodes) {
  tf::CallableOptions callable;
  for (const std::string& node : nodes) {
    if (shared_kernels_.count(node) == 0) callable.add_target(node);
  }
  if (callable.target_size() == 0) return absl::OkStatus();
  if (central_handle_.empty()) {
    tf::GraphDef question;
    *question.mutable_versions() = graph.graph_def().versions();
    tf::NodeDef* const node = question.add_node();
    node->set_name(kHandleNode);
    node->set_op("TensorBowSessionHandle");
    TF_RETURN_IF_ERROR(central_->Extend(question));
    std::vector<tf::Tensor> answer;
    TF_RETURN_IF_ERROR(central_->Run({}, {kHandleNode}, {}, &answer));
    central_handle_ = answer[0].scalar<tf::tstring>()();
  }
  // Making a callable creates the kernels in the stock session, with its own function
  // library, and executes nothing. It is kept for as long as the session lives.
  tf::Session::CallableHandle handle;
  TF_RETURN_IF_ERROR(central_->MakeCallable(callable, &handle));
  shared_kernels_.insert(callable.target().begin(), callable.target().end());
  return absl::OkStatus();
}

absl::Status Trainer::CompileRates(const ProgramGraph& graph, Program* program) {
  const RunAnalysis& analysis = program->analysis;
  if (num_learners() == 1 || analysis.learning_rates.empty() ||
      options_.restart != Options::Restart::kOnLearningRateDrop) {
    return absl::OkStatus();
  }
  RunSpec spec;
  spec.feeds = program->task_spec.feeds;
  for (const std::string& rate : analysis.learning_rates) {
    const auto feed = std::find(spec.feeds.begin(), spec.feeds.end(), rate);
    if (feed != spec.feeds.end()) {
      program->fed_rates.push_back(static_cast<int>(feed - spec.feeds.begin()));
    } else {
      spec.fetches.push_back(rate);
    }
  }
  if (spec.fetches.empty()) return absl::OkStatus();
  tf::DeviceSet device_set;
  TaskGraph task;
  TF_RETURN_IF_ERROR(
      BuildTaskGraph(graph, spec, session_options_, Devices(&device_set), &task));
  return learners_[0]->Compile(task, Specialisation(), &program->rates);
}

absl::Status Trainer::Compile(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const std::set<std::string>& sparse_feeds,
                              std::shared_ptr<Program>* program) {
  auto made = std::make_shared<Program>();
  TF_RETURN_IF_ERROR(Dissect(graph, spec, sparse_feeds, made.get()));
  made->analysis = analysis;
  TF_RETURN_IF_ERROR(EnsureSharedKernels(graph, analysis.shared_kernels));
  if (environment_.shares_random_state) {
    TF_RETURN_IF_ERROR(EnsureSharedKernels(graph, analysis.random_kernels));
  }

  tf::DeviceSet device_set;
  TaskGraph task;
  TF_RETURN_IF_ERROR(BuildTaskGraph(graph, made->task_spec, session_options_,
                                    Devices(&device_set), &task));
  learners_[0]->Optimise(&task);
  std::vector<std::string> trained;
  for (const auto& [name, use] : analysis.variables) {
    if (use.trained) trained.push_back(name);
  }
  if (synchroniser_->synchronises()) {
    TF_ASSIGN_OR_RETURN(made->corrects_itself, FuseUpdates(trained, &task));
    const bool averages = synchroniser_->averages();
    if (!averages) {
      TF_ASSIGN_OR_RETURN(made->num_gradients, ReduceGradients(trained, &task));
    }
    TF_RETURN_IF_ERROR(FuseProducts(/*with_input_gradients=*/averages, &task));
  }
  for (const auto& learner : learners_) {
    Specialisation specialisation;
    specialisation.learner = learner->id();
    specialisation.own_variables = num_learners() > 1;
    specialisation.own_random_state = !environment_.shares_random_state;
    specialisation.seed = options_.seed;
    std::unique_ptr<Learner::Program> learner_program;
    TF_RETURN_IF_ERROR(learner->Compile(task, specialisation, &learner_program));
    made->learners.push_back(std::move(learner_program));
  }
  made->hidden_random_ops = HiddenRandomState(made->learners[0]->graphs());
  TF_RETURN_IF_ERROR(CompileRates(graph, made.get()));

  if (num_learners() > 1) {
    made->momentum = options_.momentum.value_or(
        analysis.plain_gradient_descent ? kDefaultMomentum : 0);
    constexpr double kStrong = 0.9 - 1e-6;  // 0.9 as a float is a little less
    if (synchroniser_->averages() && analysis.optimiser_momentum >= kStrong &&
        made->momentum >= kStrong) {
      warn_(absl::StrCat(
          "The learners' optimiser has momentum ", analysis.optimiser_momentum,
          " and the central model has momentum ", made->momentum,
          ". Together they shrink the usable learning rate 2- to 8-fold; "
          "momentum=\"auto\" leaves the central model's out."));
    }
  }
  made->restarts_seen = restarts_requested_.load();
  absl::MutexLock lock(&progress_mu_);
  const std::string key = KeyOf(spec);
  const auto loaded = loaded_progress_.find(key);
  if (loaded != loaded_progress_.end()) {
    SetProgressOf(made.get(), loaded->second);
    loaded_progress_.erase(loaded);
  }
  programs_[key] = made;
  *program = std::move(made);
  return absl::OkStatus();
}

// ------------------------------------------------------------------------ turns

bool Trainer::TakeTurn(bool waits) {
  absl::MutexLock lock(&turn_mu_);
  turn_mu_.Await(absl::Condition(+[](bool* taken) { return !*taken; }, &turn_taken_));
  turn_taken_ = true;
  turn_waits_ = waits;
  return runs_beside_;
}

bool Trainer::TakeCentralTurn(bool at_once) {
  absl::MutexLock lock(&turn_mu_);
  while (turn_taken_) {
    if (at_once) return false;
    auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !turn_taken_; };
    auto ended_or_waits = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !turn_taken_ || turn_waits_;
    };
    if (!turn_waits_) {
      turn_mu_.Await(absl::Condition(&ended_or_waits));
    } else if (runs_beside_ ||
               !turn_mu_.AwaitWithTimeout(absl::Condition(&ended), kPatience)) {
      runs_beside_ = true;
      return false;
    }
  }
  turn_taken_ = true;
  turn_waits_ = false;
  return true;
}

void Trainer::EndTurn() {
  absl::MutexLock lock(&turn_mu_);
  turn_taken_ = false;
}

std::map<std::string, RunProgress> Trainer::Progress() {
  absl::MutexLock lock(&progress_mu_);
  std::map<std::string, RunProgress> progress = loaded_progress_;
  for (const auto& [key, weak] : programs_) {
    const std::shared_ptr<Program> program = weak.lock();
    if (program == nullptr) continue;
    RunProgress& run = progress[key];
    run.iterations =
        program->set == nullptr ? program->first_iteration : program->set->iterations;
    run.last_rates = program->last_rates;
    run.rate_dropped = program->rate_dropped;
    run.restart_pending = program->restarts_seen != restarts_requested_.load();
  }
  return progress;
}

void Trainer::SetProgress(std::map<std::string, RunProgress> progress) {
  absl::MutexLock lock(&progress_mu_);
  for (const auto& [key, weak] : programs_) {
    const std::shared_ptr<Program> program = weak.lock();
    if (program == nullptr) continue;
    SetProgressOf(program.get(), progress[key]);
    progress.erase(key);
  }
  loaded_progress_ = std::move(progress);
}

void Trainer::SetProgressOf(Program* program, const RunProgress& progress) {
  program->first_iteration = progress.iterations;
  if (program->set != nullptr) program->set->iterations = progress.iterations;
  program->last_rates = progress.last_rates;
  program->rate_dropped = progress.rate_dropped;
  program->restarts_seen = restarts_requested_.load() - progress.restart_pending;
}

std::vector<std::string> Trainer::HiddenRandomOps() {
  absl::MutexLock lock(&progress_mu_);
  std::set<std::string> names;
  for (const auto& [key, weak] : programs_) {
    const std::shared_ptr<Program> program = weak.lock();
    if (program == nullptr) continue;
    const std::vector<std::string>& hidden = program->hidden_random_ops;
    names.insert(hidden.begin(), hidden.end());
  }
  return {names.begin(), names.end()};
}

// ---------------------------------------------------------------------- running

absl::Status Trainer::LocateReplicas(Program* program) {
  TrainedSet* const set = program->set.get();
  for (int j = 0; j < num_learners(); ++j) {
    for (int member = 0; member < set->size(); ++member) {
      TF_RETURN_IF_ERROR(variables_->Locate(program->trained[member], j, member, set));
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::LocateAfterTask(Program* program, int learner) {
  TrainedSet* const set = program->set.get();
  for (int member = 0; member < set->size(); ++member) {
    if (synchroniser_->updated(learner, member)) continue;
    if (!synchroniser_->EnterAll(learner, member)) break;  // aborted by another
    TF_RETURN_IF_ERROR(
        variables_->Locate(program->trained[member], learner, member, set));
  }
  return absl::OkStatus();
}

void Trainer::ChooseTrainedSet(Program* program) {
  if (program->num_trained == variables_->num_trained()) return;
  program->num_trained = variables_->num_trained();
  program->trained.clear();
  // Otherwise there is nothing to keep together.
  if (synchroniser_->keeps_z()) {
    for (const auto& [name, use] : program->analysis.variables) {
      if (use.trained) program->trained.push_back(variables_->Find(name));
    }
  }
  if (synchroniser_->averages()) {
    for (const auto& [name, use] : program->analysis.variables) {
      const int id = variables_->Find(name);
      if (use.written && !use.trained && id >= 0 && variables_->trained(id)) {
        program->trained.push_back(id);
      }
    }
  }
  std::vector<int> model_indices;
  for (int id : program->trained) model_indices.push_back(variables_->model_index(id));
  const int64_t iterations =
      program->set == nullptr ? program->first_iteration : program->set->iterations;
  program->set = std::make_unique<TrainedSet>(num_learners(), std::move(model_indices),
                                              program->momentum);
  program->set->iterations = iterations;
  const int num_updates = static_cast<int>(program->corrects_itself.size());
  program->set->set_meetings(program->num_gradients, num_updates);
  for (int member = 0; member < std::min(num_updates, program->set->size()); ++member) {
    if (program->corrects_itself[member]) program->set->set_corrects_itself(member);
  }
}

absl::StatusOr<bool> Trainer::RateDropped(Program* program,
                                          const std::vector<tf::Tensor>& feeds) {
  std::vector<tf::Tensor> values;
  if (program->rates != nullptr) {
    std::vector<tf::Tensor> aligned;
    for (const tf::Tensor& feed : feeds) aligned.push_back(Aligned(feed));
    tf::CancellationManager cancellation;
    Learner::Task task;
    task.feeds = &aligned;
    task.step_id = NextStepId();
    task.cancellation = &cancellation;
    TF_RETURN_IF_ERROR(learners_[0]->Execute(*program->rates, task, &values));
    TF_RETURN_IF_ERROR(learners_[0]->Finish());
  }
  for (int feed : program->fed_rates) values.push_back(Aligned(feeds[feed]));
  std::vector<double> rates;
  for (const tf::Tensor& value : values) {
    double rate = 0;
    if (value.NumElements() == 1) {
      if (value.dtype() == tf::DT_FLOAT) rate = value.flat<float>()(0);
      if (value.dtype() == tf::DT_DOUBLE) rate = value.flat<double>()(0);
    }
    rates.push_back(rate);
  }
  bool dropped = false;
  for (size_t i = 0; i < program->last_rates.size(); ++i) {
    dropped |= program->last_rates[i] > 0 && rates[i] <= 0.5 * program->last_rates[i];
  }
  program->last_rates = std::move(rates);
  return dropped;
}

absl::StatusOr<bool> Trainer::RestartIsDue(Program* program,
                                           const std::vector<tf::Tensor>& feeds) {
  const int64_t requested = restarts_requested_.load();
  bool due = program->restarts_seen != requested;
  program->restarts_seen = requested;
  if (options_.restart == Options::Restart::kOnLearningRateDrop) {
    TF_ASSIGN_OR_RETURN(const bool dropped, RateDropped(program, feeds));
    due |= dropped || std::exchange(program->rate_dropped, false);
  } else if (options_.restart == Options::Restart::kCallback) {
    TF_ASSIGN_OR_RETURN(const bool wanted, options_.restart_callback(iterations()));
    due |= wanted;
  }
  return due;
}

void Trainer::NoteLateWrites() {
  std::vector<std::string> late_writes;
  {
    absl::MutexLock lock(&late_writes_mu_);
    late_writes.swap(late_writes_);
  }
  for (const std::string& name : late_writes) variables_->MarkAssigned(name);
}

absl::Status Trainer::PrepareReplicas(Program* program,
                                      const std::vector<tf::Tensor>& feeds,
                                      bool* ready) {
  *ready = true;
  if (num_learners() > 1) {
    NoteLateWrites();
    if (program->variables.empty()) {
      for (const auto& [name, use] : program->analysis.variables) {
        const int id = variables_->Add(use);
        program->variables.push_back(id);
        if (use.written) program->written.push_back(id);
      }
    }
    std::vector<int> uninitialised;
    bool moved = false;
    TF_RETURN_IF_ERROR(
        variables_->Broadcast(program->variables, &uninitialised, &moved));
    if (moved) environment_.replica_generation.fetch_add(1);
    *ready = uninitialised.empty();
    if (!*ready) return absl::OkStatus();
  }
  ChooseTrainedSet(program);
  TF_RETURN_IF_ERROR(LocateReplicas(program));
  if (!synchroniser_->averages()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const bool restart, RestartIsDue(program, feeds));
  if (restart) synchroniser_->Restart(*program->set);
  return absl::OkStatus();
}

absl::Status Trainer::RunTask(int learner, RunState* run, int64_t task) {
  const std::vector<tf::Tensor> feeds = FeedsOfTask(run->plan, task, *run->feeds);
  Learner::Task execution;
  execution.feeds = &feeds;
  execution.step_id = NextStepId();
  // One of its own: the executor cancels it when a kernel fails, which is nobody
  // else's business.
  tf::CancellationManager cancellation(run->cancellation);
  execution.cancellation = &cancellation;
  if (!run->collectors.empty()) execution.stats = run->collectors[learner].get();
  TaskOutcome& outcome = run->outcomes[task];
  outcome.learner = learner;
  TF_RETURN_IF_ERROR(learners_[learner]->Execute(*run->program->learners[learner],
                                                 execution, &outcome.fetches));
  if (!run->plan.tasks.empty()) {
    outcome.rows = run->plan.tasks[task].count();
  } else if (run->program->rows_fetch >= 0) {
    const tf::Tensor& data = outcome.fetches[run->program->rows_fetch];
    outcome.rows = data.dims() > 0 ? data.dim_size(0) : 0;
  }
  return absl::OkStatus();
}

void Trainer::RunTasks(int learner, RunState* run) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  // Runs while the caller of Run() holds mu_ for all learners.
  Program* const program = run->program;
  std::optional<TaskScheduler::Assignment> assignment = scheduler_.Next(learner);
  // Where learners share an accelerator, learner 0's first task says how much memory
  // one needs.
  if (learner > 0 && run->measures_memory) run->measured.WaitForNotification();
  for (bool first = true; assignment.has_value() && !synchroniser_->Aborted(learner);
       first = false) {
    if (!synchroniser_->BeforeTask(learner)) break;
    if (learner == 0 && !first && synchroniser_->averages()) {
      const absl::StatusOr<bool> dropped = RateDropped(program, *run->feeds);
      program->rate_dropped |= dropped.ok() && *dropped;
    }
    absl::Status status = RunTask(learner, run, assignment->task);
    if (learner == 0 && first && run->measures_memory) {
      if (status.ok()) status = CheckMemory();
      program->measured_memory = status.ok();
      run->measured.Notify();
    }
    if (absl::IsOutOfRange(status) && run->ends_with_data) {
      run->status[learner] = status;
      synchroniser_->SitOut(learner);
      break;
    }
    if (status.ok()) status = LocateAfterTask(program, learner);
    if (!status.ok()) {
      run->status[learner] = status;
      synchroniser_->Abort(learner);
      // A sibling may wait for data that now will not come. But a cancelled GetNext
      // would be the end of the shared iterator.
      if (program->analysis.may_block && !program->analysis.reads_iterator) {
        run->cancellation->StartCancel();
      }
      break;
    }
    run->task_iteration[assignment->task] = assignment->iteration;
    if (!synchroniser_->AfterTask(learner)) break;
    assignment = scheduler_.Next(learner);
  }
  if (learner == 0 && run->measures_memory && !run->measured.HasBeenNotified()) {
    run->measured.Notify();
  }
  const absl::Status finished = learners_[learner]->Finish();
  if (run->status[learner].ok()) run->status[learner] = finished;
}

absl::Status Trainer::MakeReplicasEqual(Program* program, const RunState& run) {
  const std::vector<int64_t>& iterations = run.task_iteration;
  const int64_t last = *std::max_element(iterations.begin(), iterations.end());
  if (last < 0) return absl::OkStatus();  // nobody has changed anything
  std::vector<bool> up_to_date(num_learners(), false);
  for (size_t task = 0; task < iterations.size(); ++task) {
    if (iterations[task] == last) up_to_date[run.outcomes[task].learner] = true;
  }
  const auto from = std::find(up_to_date.begin(), up_to_date.end(), true);
  for (int j = 0; j < num_learners(); ++j) {
    if (up_to_date[j]) continue;
    TF_RETURN_IF_ERROR(variables_->CopyReplicas(
        program->written, static_cast<int>(from - up_to_date.begin()), j));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CollectFetches(const Program& program,
                                     const std::vector<TaskOutcome>& outcomes,
                                     std::vector<tf::Tensor>* fetches) {
  fetches->clear();
  for (const Program::Fetch& fetch : program.fetches) {
    if (fetch.variable != nullptr) {
      TF_ASSIGN_OR_RETURN(tf::Tensor value, variables_->CentralValue(*fetch.variable));
      fetches->push_back(std::move(value));
      continue;
    }
    TF_ASSIGN_OR_RETURN(tf::Tensor value,
                        Combine(fetch.declaration, outcomes, fetch.task_fetch));
    fetches->push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Run(Program* program, const std::vector<tf::Tensor>& feeds,
                          const tf::RunOptions& run_options,
                          tf::CancellationManager* cancellation,
                          std::vector<tf::Tensor>* fetches, tf::RunMetadata* metadata,
                          bool* central) {
  *central = false;
  RunState run;
  FeedOptions feed_options;
  feed_options.num_learners = num_learners();
  feed_options.batch_size = options_.batch_size;
  {
    absl::MutexLock lock(&mu_);
    feed_options.task_rows = task_rows_;
  }
  TF_RETURN_IF_ERROR(PlanFeeds(program->feeds, feeds, feed_options, &run.plan));
  const bool divisible = run.plan.ambiguous.empty();
  // Once for a program: the reason may name different numbers of rows every time.
  if (!divisible && (num_learners() > 1 || options_.batch_size > 0) &&
      !program->told_of_feeds.exchange(true)) {
    warn_(absl::StrCat(
        "A learning run was executed by one learner only, because its feeds cannot be "
        "divided without guessing: ",
        run.plan.ambiguous,
        ". Name the feeds that have one row per sample in Options(shard=[...]) and "
        "those that every learner needs whole in Options(replicate=[...])."));
  }
  if (!divisible) run.plan.tasks.clear();

  const bool waits = program->analysis.may_block || program->analysis.reads_iterator;
  const bool read_meanwhile = TakeTurn(waits);
  const auto end_turn = absl::MakeCleanup([this] { EndTurn(); });
  absl::MutexLock lock(&mu_);
  if (!divisible && num_learners() > 1) {
    *central = true;
    return absl::OkStatus();
  }
  bool ready = false;
  TF_RETURN_IF_ERROR(PrepareReplicas(program, feeds, &ready));
  if (!ready) {
    *central = true;
    return absl::OkStatus();
  }
  if (waits && read_meanwhile) {
    TF_RETURN_IF_ERROR(variables_->Publish(program->variables));
  }

  const bool divided = !run.plan.tasks.empty();
  const int64_t num_tasks = divided     ? static_cast<int64_t>(run.plan.tasks.size())
                            : divisible ? num_learners()
                                        : 1;
  tf::CancellationManager run_cancellation(cancellation);
  if (run_cancellation.IsCancelled()) {
    return absl::CancelledError("Run call was cancelled");
  }
  run.program = program;
  run.feeds = &feeds;
  run.ends_with_data = !divided && num_learners() > 1;
  run.cancellation = &run_cancellation;
  run.measures_memory = accelerators_ != nullptr && num_learners() > 1 &&
                        !std::exchange(program->measured_memory, true);
  run.outcomes.resize(num_tasks);
  run.task_iteration.assign(num_tasks, -1);
  run.status.resize(num_learners());
  const bool trace =
      metadata != nullptr && (run_options.trace_level() > tf::RunOptions::NO_TRACE ||
                              run_options.report_tensor_allocations_upon_oom());
  for (int j = 0; trace && j < num_learners(); ++j) {
    run.stats.push_back(std::make_unique<tf::StepStats>());
    run.collectors.push_back(
        std::make_unique<tf::StepStatsCollector>(run.stats.back().get()));
  }

  const bool in_order = !divided || run.plan.one_shard_per_learner;
  scheduler_.Begin(num_tasks,
                   in_order ? SchedulingPolicy::kRoundRobin : options_.scheduling);
  synchroniser_->BeginRun(program->set.get(), &scheduler_);
  const int active = static_cast<int>(std::min<int64_t>(num_tasks, num_learners()));
  const int64_t timeout_ms = run_options.timeout_in_ms() > 0
                                 ? run_options.timeout_in_ms()
                                 : session_options_.config.operation_timeout_in_ms();
  Deadline deadline(timeout_ms, &run_cancellation);
  for (int j = 1; j < active; ++j) {
    learners_[j]->worker()->Start([this, j, &run] { RunTasks(j, &run); });
  }
  RunTasks(0, &run);
  for (int j = 1; j < active; ++j) learners_[j]->worker()->Wait();
  const bool expired = deadline.Stop();
  const int64_t completed = synchroniser_->EndRun();
  iterations_.fetch_add(completed);
  for (int64_t task = 0; task < num_tasks; ++task) {
    if (run.task_iteration[task] < 0 || run.task_iteration[task] >= completed) continue;
    learning_tasks_.fetch_add(1);
    samples_seen_.fetch_add(std::max<int64_t>(1, run.outcomes[task].rows));
  }
  if (num_learners() > 1) variables_->MarkLearned(program->written);
  if (synchroniser_->synchronises() && !synchroniser_->averages()) {
    TF_RETURN_IF_ERROR(MakeReplicasEqual(program, run));
  }

  for (int j = 0; j < static_cast<int>(run.collectors.size()); ++j) {
    run.collectors[j]->Finalize();
    for (tf::DeviceStepStats& stats : *run.stats[j]->mutable_dev_stats()) {
      stats.set_device(absl::StrCat(stats.device(), "/learner:", j));
      metadata->mutable_step_stats()->add_dev_stats()->Swap(&stats);
    }
  }
  if (metadata != nullptr && run_options.output_partition_graphs()) {
    Learner::AppendGraph(*program->learners[0], metadata->add_partition_graphs());
  }

  // The first error in learner order, but not one that only followed from another.
  absl::Status failure;
  int finished = 0;
  for (int j = 0; j < active; ++j) {
    const absl::Status& status = run.status[j];
    if (status.ok()) {
      ++finished;
    } else if (absl::IsOutOfRange(status) && run.ends_with_data) {
      continue;
    } else if (failure.ok() || absl::IsCancelled(failure)) {
      failure = status;
    }
  }
  if (expired)
    failure = absl::DeadlineExceededError("Timed out waiting for notification");
  const std::string broken = synchroniser_->error();
  if (!broken.empty()) failure = absl::InternalError(broken);
  if (!failure.ok()) {
    if (num_learners() > 1 && synchroniser_->averages()) {
      TF_RETURN_IF_ERROR(LocateReplicas(program));
      synchroniser_->Restart(*program->set);
    }
    return failure;
  }
  if (finished == 0) return run.status[0];  // the end of the data

  std::vector<TaskOutcome> outcomes;
  for (int64_t task = 0; task < num_tasks; ++task) {
    if (run.task_iteration[task] >= 0)
      outcomes.push_back(std::move(run.outcomes[task]));
  }
  return CollectFetches(*program, outcomes, fetches);
}

// ----------------------------------------------------------- beside central runs

absl::Status Trainer::CentralRun::Begin(Trainer* trainer, const RunAnalysis& analysis)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  trainer_ = trainer;
  analysis_ = &analysis;
  if (trainer->num_learners() == 1 || analysis.variables.empty()) {
    return absl::OkStatus();
  }
  // A run that a learning run may be waiting for must not wait for it: it uses the
  // central values published last.
  if (!trainer->TakeCentralTurn(/*at_once=*/analysis.may_block)) {
    unprepared_ = true;
    return absl::OkStatus();
  }
  trainer->mu_.Lock();
  locked_ = true;
  std::vector<int> reached, written;
  for (const auto& [name, use] : analysis.variables) {
    const int id = trainer->variables_->Find(name);
    if (id < 0) continue;
    reached.push_back(id);
    if (use.written) written.push_back(id);
  }
  if (analysis.kind == RunAnalysis::Kind::kLearning) {
    TF_RETURN_IF_ERROR(trainer->variables_->Gather(written));
  }
  TF_RETURN_IF_ERROR(trainer->variables_->Publish(reached));
  if (!written.empty()) {
    TF_ASSIGN_OR_RETURN(before_, trainer->variables_->TakeSnapshot(written));
  }
  if (before_.empty() || analysis.may_block) Unlock();
  return absl::OkStatus();
}

void Trainer::CentralRun::Unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  locked_ = false;
  trainer_->mu_.Unlock();
  trainer_->EndTurn();
}

absl::Status Trainer::CentralRun::End() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (before_.empty() && !unprepared_) return absl::OkStatus();
  if (!locked_ && !unprepared_ && trainer_->TakeCentralTurn(/*at_once=*/true)) {
    trainer_->mu_.Lock();
    locked_ = true;
  }
  if (locked_) return trainer_->variables_->NoteChanges(before_);
  // Learners are at work: the next learning run takes note.
  absl::MutexLock lock(&trainer_->late_writes_mu_);
  for (const auto& [name, use] : analysis_->variables) {
    if (use.written) trainer_->late_writes_.push_back(name);
  }
  return absl::OkStatus();
}

Trainer::CentralRun::~CentralRun() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (locked_) Unlock();
}

void Trainer::SetTaskRows(std::vector<int64_t> rows) {
  absl::MutexLock lock(&mu_);
  task_rows_ = std::move(rows);
}

void Trainer::CountCentralTask(int64_t rows) {
  iterations_.fetch_add(1);
  learning_tasks_.fetch_add(1);
  samples_seen_.fetch_add(std::max<int64_t>(1, rows));
}

absl::StatusOr<tf::Tensor> Trainer::LearnerValue(const std::string& variable,
                                                 int learner) {
  absl::MutexLock lock(&mu_);
  const int id = variables_->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return variables_->ReplicaValue(id, learner);
}

absl::StatusOr<tf::Tensor> Trainer::CentralValue(const std::string& variable,
                                                 CentralModel::Which which) {
  absl::MutexLock lock(&mu_);
  const int id = variables_->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return variables_->ModelValue(id, which);
}

}  // namespace tensorbow
