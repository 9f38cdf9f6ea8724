// GpuSma's values: their memory, uploads and downloads.
#include <algorithm>
#include <utility>

#include "cc/synchroniser/gpu/gpu_sma.h"
#include "cc/synchroniser/gpu/sma_kernels.h"

namespace tensorbow {
namespace {

constexpr int64_t kValueAlignmentBytes = 256;

int64_t SizeBytes(const CentralModel::Variable& variable) {
  return variable.size() * AccumulatorSizeBytes(variable.type());
}

int64_t Aligned(int64_t size_bytes) {
  return (size_bytes + kValueAlignmentBytes - 1) / kValueAlignmentBytes *
         kValueAlignmentBytes;
}

bool IsUpToDate(const CentralModel::Variable& variable) {
  for (int s = 0; s < variable.num_slices(); ++s) {
    if (!variable.up_to_date(s)) return false;
  }
  return true;
}

void MarkUpToDate(CentralModel::Variable* variable) {
  for (int s = 0; s < variable->num_slices(); ++s) variable->MarkUpToDate(s);
}

}  // namespace

// ----------------------------------------------------------------- the host's lead

bool GpuSma::HostLeads(int v) const {
  return v >= static_cast<int>(states_.size()) ||
         states_[v].version != central_->variable(v).version();
}

CudaError GpuSma::FollowHost(const std::vector<int>& variables) {
  // Work enqueued on the compute streams since the last run comes first.
  TENSORBOW_RETURN_IF_CUDA_ERROR(RecordAllReady());
  TENSORBOW_RETURN_IF_CUDA_ERROR(AddVariables());
  bool awaited = false;
  for (int v : variables) {
    if (!HostLeads(v)) continue;
    if (!awaited) TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitLearners());
    awaited = true;
    TENSORBOW_RETURN_IF_CUDA_ERROR(Upload(v));
  }
  return awaited ? RecordPrepared() : "";
}

CudaError GpuSma::AddVariables() {
  for (SmaGpu& gpu : gpus_) TENSORBOW_RETURN_IF_CUDA_ERROR(AddVariablesTo(&gpu));
  states_.resize(central_->num_variables());
  return "";
}

CudaError GpuSma::AddVariablesTo(SmaGpu* gpu) {
  const int first = static_cast<int>(gpu->values.size());
  const int count = central_->num_variables();
  if (first == count) return "";
  const int arrays = 1 + !is_current() + central_->keeps_average();
  int64_t total_bytes = 0;
  for (int v = first; v < count; ++v) {
    total_bytes += arrays * Aligned(SizeBytes(central_->variable(v)));
  }
  CudaDeviceGuard guard(gpu->ordinal);
  CudaBuffer chunk;
  TENSORBOW_RETURN_IF_CUDA_ERROR(chunk.Allocate(total_bytes));
  char* place = chunk.as<char>();
  for (int v = first; v < count; ++v) {
    const int64_t size_bytes = Aligned(SizeBytes(central_->variable(v)));
    const auto take = [&] { return std::exchange(place, place + size_bytes); };
    SmaValues values = {take(), nullptr, nullptr};
    if (!is_current()) values.next = take();
    if (central_->keeps_average()) values.average = take();
    gpu->values.push_back(values);
  }
  gpu->chunks.push_back(std::move(chunk));
  return "";
}

CudaError GpuSma::Upload(int v) {
  const CentralModel::Variable& variable = central_->variable(v);
  for (SmaGpu& gpu : gpus_) {
    CudaDeviceGuard guard(gpu.ordinal);
    const SmaValues& values = gpu.values[v];
    const auto copy = [&](const void* from, void* to) -> CudaError {
      if (from == nullptr) return "";
      return CopyAsync(CudaCopy::kHostToDevice, from, SizeBytes(variable), to,
                       gpu.stream.get());
    };
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        copy(variable.z<char>(), is_current() ? values.target : values.next));
    TENSORBOW_RETURN_IF_CUDA_ERROR(copy(variable.previous<char>(), values.target));
    TENSORBOW_RETURN_IF_CUDA_ERROR(copy(variable.average<char>(), values.average));
  }
  const int64_t iterations = variable.iterations();
  states_[v] = {variable.version(), /*is_newer=*/false, iterations,
                IsUpToDate(variable) ? iterations : iterations - 1};
  return "";
}

// ----------------------------------------------------------------- the GPUs' lead

CudaError GpuSma::BringUpToDate(int v, const std::vector<void*>& replicas,
                                const std::vector<int>& participants) {
  if (states_[v].up_to_date()) return "";
  TrainedSet alone(num_learners(), {v});
  for (int j : all_) alone.set_weights(j, 0, replicas[j]);
  TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitLearners());
  TENSORBOW_RETURN_IF_CUDA_ERROR(PrepareCurrent(
      alone, [&](int) -> const std::vector<int>& { return participants; }));
  return RecordPrepared();
}

void GpuSma::Reset(const TrainedSet& set, int member, const std::vector<int>& learners,
                   const std::vector<int>& participants) {
  MutexLock lock(&mu_);
  if (error_.empty()) CheckLocked(ResetLocked(set, member, learners, participants));
}

CudaError GpuSma::ResetLocked(const TrainedSet& set, int member,
                              const std::vector<int>& learners,
                              const std::vector<int>& participants) {
  const int v = set.variable(member);
  const CentralModel::Variable& variable = central_->variable(v);
  TENSORBOW_RETURN_IF_CUDA_ERROR(FollowHost({v}));
  if (is_current()) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        BringUpToDate(v, set.replicas(member), participants));
  } else {
    // The host may forget the momentum next, and then leads.
    if (learners.size() == all_.size()) TENSORBOW_RETURN_IF_CUDA_ERROR(Download(v));
    TENSORBOW_RETURN_IF_CUDA_ERROR(RecordPrepared());
  }
  for (int j : learners) {
    const SmaValues& values = gpu_of(j).values[v];
    CudaDeviceGuard guard(learners_[j].ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitPrepared(j));
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        LaunchReset(variable.type(), is_current() ? values.target : values.next,
                    variable.size(), set.weights(j, member), learners_[j].stream));
    TENSORBOW_RETURN_IF_CUDA_ERROR(RecordReady(j));
  }
  return "";
}

std::string GpuSma::Collect(int variable, const std::vector<void*>& replicas,
                            const std::vector<int>& participants) {
  MutexLock lock(&mu_);
  if (error_.empty()) CheckLocked(CollectLocked(variable, replicas, participants));
  return error_;
}

CudaError GpuSma::CollectLocked(int v, const std::vector<void*>& replicas,
                                const std::vector<int>& participants) {
  CentralModel::Variable& variable = central_->variable(v);
  if (is_current() &&
      !(HostLeads(v) ? IsUpToDate(variable) : states_[v].up_to_date())) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(FollowHost({v}));
    TENSORBOW_RETURN_IF_CUDA_ERROR(BringUpToDate(v, replicas, participants));
  }
  TENSORBOW_RETURN_IF_CUDA_ERROR(Download(v));
  MarkUpToDate(&variable);
  return "";
}

CudaError GpuSma::Download(int v) {
  if (HostLeads(v) || !states_[v].is_newer) return "";
  State& state = states_[v];
  CentralModel::Variable& variable = central_->variable(v);
  const SmaGpu& gpu = gpus_[0];  // all have the same values
  const SmaValues& values = gpu.values[v];
  CudaDeviceGuard guard(gpu.ordinal);
  const auto copy = [&](const void* from, void* to) -> CudaError {
    if (to == nullptr) return "";
    return CopyAsync(CudaCopy::kDeviceToHost, from, SizeBytes(variable), to,
                     gpu.stream.get());
  };
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      copy(is_current() ? values.target : values.next, variable.z<char>()));
  TENSORBOW_RETURN_IF_CUDA_ERROR(copy(values.target, variable.previous<char>()));
  TENSORBOW_RETURN_IF_CUDA_ERROR(copy(values.average, variable.average<char>()));
  TENSORBOW_RETURN_IF_CUDA_ERROR(SynchroniseStream(gpu.stream.get()));
  variable.Resume(state.iterations, state.averaged);
  state.version = variable.version();
  state.is_newer = false;
  return "";
}

}  // namespace tensorbow
