#include "cc/synchroniser/gpu/gpu_sma.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "cc/synchroniser/gpu/sma_kernels.h"

namespace tensorbow {

std::vector<int> OrdinalsOf(const std::vector<LearnerStream>& learners) {
  std::vector<int> ordinals;
  for (const LearnerStream& learner : learners) {
    if (std::find(ordinals.begin(), ordinals.end(), learner.ordinal) ==
        ordinals.end()) {
      ordinals.push_back(learner.ordinal);
    }
  }
  return ordinals;
}

GpuSma::GpuSma(const SmaOptions& options, std::vector<LearnerStream> learners,
               CentralModel* central, std::unique_ptr<Reducer> reducer)
    : centre_(options.centre),
      traits_(TraitsOfSma(options)),
      learners_(std::move(learners)),
      central_(central),
      reducer_(std::move(reducer)),
      all_(learners_.size()),
      ready_(learners_.size()),
      waits_(learners_.size()) {
  std::iota(all_.begin(), all_.end(), 0);
  const std::vector<int> ordinals = OrdinalsOf(learners_);
  gpus_.resize(ordinals.size());
  for (size_t g = 0; g < ordinals.size(); ++g) gpus_[g].ordinal = ordinals[g];
  for (int j : all_) {
    const auto place =
        std::find(ordinals.begin(), ordinals.end(), learners_[j].ordinal);
    gpu_index_.push_back(static_cast<int>(place - ordinals.begin()));
    gpu_of(j).learners.push_back(j);
  }
  passes_.emplace(&gpus_, central_, reducer_.get());
  CheckLocked(Open());
}

CudaError GpuSma::Open() {
  for (SmaGpu& gpu : gpus_) {
    CudaDeviceGuard guard(gpu.ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(guard.error());
    TENSORBOW_RETURN_IF_CUDA_ERROR(gpu.stream.Create(/*urgent=*/true));
    TENSORBOW_RETURN_IF_CUDA_ERROR(gpu.prepared.Create());
  }
  return "";
}

GpuSma::~GpuSma() {
  // Enqueued work must not outlive its memory.
  for (const LearnerStream& learner : learners_) SynchroniseStream(learner.stream);
  for (const SmaGpu& gpu : gpus_) {
    if (gpu.stream.get() != nullptr) SynchroniseStream(gpu.stream.get());
  }
}

std::string GpuSma::error() const {
  if (!failed_.load(std::memory_order_acquire)) return "";
  MutexLock lock(&mu_);
  return error_;
}

bool GpuSma::Check(const CudaError& error) {
  if (error.empty()) return true;
  MutexLock lock(&mu_);
  return CheckLocked(error);
}

bool GpuSma::CheckLocked(const CudaError& error) {
  if (error.empty()) return true;
  if (error_.empty()) error_ = error;
  failed_.store(true, std::memory_order_release);
  return false;
}

// ------------------------------------------------------------------------- events

CudaError GpuSma::RecordReady(int learner) {
  CudaDeviceGuard guard(learners_[learner].ordinal);
  return ready_[learner].Record(learners_[learner].stream);
}

CudaError GpuSma::RecordAllReady() {
  for (int j : all_) TENSORBOW_RETURN_IF_CUDA_ERROR(RecordReady(j));
  return "";
}

CudaError GpuSma::AwaitLearners() {
  for (const SmaGpu& gpu : gpus_) {
    for (int j : gpu.learners) {
      TENSORBOW_RETURN_IF_CUDA_ERROR(ready_[j].Wait(gpu.stream.get()));
    }
  }
  return "";
}

CudaError GpuSma::RecordPrepared() {
  for (SmaGpu& gpu : gpus_) {
    CudaDeviceGuard guard(gpu.ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(gpu.prepared.Record(gpu.stream.get()));
  }
  return "";
}

CudaError GpuSma::AwaitPrepared(int learner) {
  return gpu_of(learner).prepared.Wait(learners_[learner].stream);
}

// --------------------------------------------------------------------- iterations

void GpuSma::BeginRun(const TrainedSet& set) {
  MutexLock lock(&mu_);
  corrections_.resize(central_->num_variables());
  std::vector<int> variables;
  for (int m = 0; m < set.size(); ++m) {
    variables.push_back(set.variable(m));
    corrections_[variables.back()].resize(num_learners());
  }
  if (!error_.empty() || !CheckLocked(FollowHost(variables))) return;
  SmaPasses::Tables* tables = nullptr;  // allocated before the first iteration
  CheckLocked(passes_->Find(set, &tables));
}

bool GpuSma::Enter(int learner, const Iteration& iteration, bool replays) {
  if (failed_.load(std::memory_order_acquire)) return false;
  if ((is_current() || iteration.due) && !Prepare(iteration)) return false;
  return replays || WaitOnStream(learner, iteration.number);
}

bool GpuSma::Prepare(const Iteration& iteration) {
  if (prepared_.load(std::memory_order_acquire) >= iteration.number) return true;
  MutexLock lock(&mu_);
  if (!error_.empty()) return false;
  if (prepared_.load(std::memory_order_relaxed) >= iteration.number) return true;
  const TrainedSet& set = *iteration.set;
  const auto participants = [&](int member) -> const std::vector<int>& {
    return (*iteration.participants)[set.variable(member)];
  };
  if (!CheckLocked(AwaitLearners()) ||
      !CheckLocked(is_current() ? PrepareCurrent(set, participants)
                                : PrepareLagging(set)) ||
      !CheckLocked(RecordPrepared())) {
    return false;
  }
  prepared_.store(iteration.number, std::memory_order_release);
  return true;
}

CudaError GpuSma::PrepareCurrent(const TrainedSet& set,
                                 const SmaPasses::Participants& participants) {
  const auto decay = [&](int member) TENSORBOW_REQUIRES(mu_) -> std::optional<double> {
    // A reset or a read has brought it up to date.
    if (states_[set.variable(member)].up_to_date()) return std::nullopt;
    return AverageDecay(set.variable(member));
  };
  SmaPasses::Tables* tables = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Find(set, &tables));
  TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Refresh(set, participants, tables));
  if (gpus_.size() == 1) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Launch(SmaPass::kMean, {}, decay, tables));
  } else {
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        passes_->Launch(SmaPass::kSumReplicas, {}, WithoutAverage, tables));
    TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Reduce(tables));
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        passes_->Launch(SmaPass::kMeanBy, {}, decay, tables));
  }
  for (int m = 0; m < set.size(); ++m) {
    State& state = states_[set.variable(m)];
    state.is_newer |= !state.up_to_date();
    state.averaged = state.iterations;
  }
  return "";
}

CudaError GpuSma::PrepareLagging(const TrainedSet& set) {
  const auto decay = [&](int member) TENSORBOW_REQUIRES(mu_) {
    return AverageDecay(set.variable(member));
  };
  const auto everybody = [&](int) -> const std::vector<int>& { return all_; };
  SmaArguments arguments;
  arguments.alpha = traits_.alpha;
  arguments.momentum = traits_.momentum;
  SmaPasses::Tables* tables = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Find(set, &tables));
  TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Refresh(set, everybody, tables));
  advanced_ = true;
  if (gpus_.size() == 1) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        passes_->Launch(SmaPass::kAdvance, arguments, decay, tables));
  } else {
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        passes_->Launch(SmaPass::kSumCorrections, arguments, WithoutAverage, tables));
    TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Reduce(tables));
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        passes_->Launch(SmaPass::kAdvanceBy, arguments, decay, tables));
  }
  for (int m = 0; m < set.size(); ++m) {
    State& state = states_[set.variable(m)];
    state.averaged = state.iterations;
    state.is_newer = true;
  }
  return "";
}

double GpuSma::AverageDecay(int variable) const {
  const State& state = states_[variable];
  if (!central_->keeps_average() || state.up_to_date()) return -1;
  return CentralModel::Decay(central_->ema_decay(), state.iterations);
}

bool GpuSma::WaitOnStream(int learner, int64_t number) {
  LearnerWait& wait = waits_[learner];
  if (wait.number == number && !wait.captured) return true;
  bool capturing = false;
  if (!Check(IsCapturing(learners_[learner].stream, &capturing))) return false;
  if (wait.number == number && capturing) return true;
  if (!Check(AwaitPrepared(learner))) return false;
  wait = {number, capturing};
  return true;
}

const void* GpuSma::Target(int learner, int variable) const {
  return gpus_[gpu_index_[learner]].values[variable].target;
}

void GpuSma::Remember(int learner, const TrainedSet& set, int member) {
  const int v = set.variable(member);
  const CentralModel::Variable& variable = central_->variable(v);
  const LearnerStream& mine = learners_[learner];
  CudaDeviceGuard guard(mine.ordinal);
  CudaBuffer& correction = corrections_[v][learner];
  if (correction.data() == nullptr &&
      !Check(correction.Allocate(variable.size() *
                                 AccumulatorSizeBytes(variable.type())))) {
    return;
  }
  Check(LaunchRemember(variable.type(), set.weights(learner, member),
                       Target(learner, v), traits_.alpha, variable.size(),
                       correction.data(), mine.stream));
}

void GpuSma::Correct(int learner, const TrainedSet& set, int member, bool remembered) {
  const int v = set.variable(member);
  const CentralModel::Variable& variable = central_->variable(v);
  const LearnerStream& mine = learners_[learner];
  void* const w = set.weights(learner, member);
  CudaDeviceGuard guard(mine.ordinal);
  if (remembered) {
    Check(LaunchSubtract(variable.type(), corrections_[v][learner].data(),
                         variable.size(), w, mine.stream));
  } else {
    Check(LaunchCorrect(variable.type(), Target(learner, v), traits_.alpha,
                        variable.size(), w, mine.stream));
  }
}

void GpuSma::Finished(int learner) {
  some_finished_.store(true, std::memory_order_relaxed);
  Check(RecordReady(learner));
}

void GpuSma::Complete(const TrainedSet& set, bool due,
                      const std::vector<int>& participants) {
  some_finished_.store(false, std::memory_order_relaxed);
  if (!is_current() && !due) return;
  MutexLock lock(&mu_);
  advanced_ = false;
  std::vector<int> idle;
  std::set_difference(all_.begin(), all_.end(), participants.begin(),
                      participants.end(), std::back_inserter(idle));
  if (!is_current() && !idle.empty() && error_.empty()) {
    CheckLocked(ExcludeLocked(set, idle));
  }
  for (int m = 0; m < set.size(); ++m) ++states_[set.variable(m)].iterations;
}

CudaError GpuSma::ExcludeLocked(const TrainedSet& set, const std::vector<int>& idle) {
  SmaPasses::Tables* tables = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Find(set, &tables));
  const bool several = gpus_.size() > 1;
  if (several) TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->ClearSums(tables));
  for (int j : idle) {
    const std::vector<int>& neighbours = gpu_of(j).learners;
    const auto place = std::find(neighbours.begin(), neighbours.end(), j);
    SmaArguments arguments;
    arguments.alpha = traits_.alpha;
    arguments.learner = static_cast<int>(place - neighbours.begin());
    TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->LaunchOn(
        gpu_index_[j], several ? SmaPass::kAddIdle : SmaPass::kExclude, arguments,
        WithoutAverage, tables));
  }
  // From here on the others may change their replicas, which have been read.
  TENSORBOW_RETURN_IF_CUDA_ERROR(RecordPrepared());
  if (!several) return "";
  TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Reduce(tables));
  return passes_->Launch(SmaPass::kExcludeBy, {}, WithoutAverage, tables);
}

void GpuSma::EndRun(const TrainedSet& set) {
  MutexLock lock(&mu_);
  if (error_.empty()) CheckLocked(EndRunLocked(set));
}

CudaError GpuSma::EndRunLocked(const TrainedSet& set) {
  if (std::exchange(advanced_, false)) {
    // Restores z from before the iteration and forgets the momentum, for the whole set:
    // all of it has advanced.
    SmaPasses::Tables* tables = nullptr;
    TENSORBOW_RETURN_IF_CUDA_ERROR(passes_->Find(set, &tables));
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        passes_->Launch(SmaPass::kDiscard, {}, WithoutAverage, tables));
  }
  if (some_finished_.exchange(false, std::memory_order_relaxed) && !is_current()) {
    // After an iteration without participants the host forgets the momentum, and leads.
    for (int m = 0; m < set.size(); ++m) {
      TENSORBOW_RETURN_IF_CUDA_ERROR(Download(set.variable(m)));
    }
  }
  // Changes of replicas between runs wait for the readers.
  for (int j : all_) TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitPrepared(j));
  return "";
}

}  // namespace tensorbow
