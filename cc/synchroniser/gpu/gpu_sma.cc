#include "cc/synchroniser/gpu/gpu_sma.h"

#include <algorithm>
#include <utility>

#include "cc/synchroniser/gpu/sma_kernels.h"

namespace tensorbow {
namespace {

constexpr int64_t kValueAlignmentBytes = 256;

int64_t Aligned(int64_t size_bytes) {
  return (size_bytes + kValueAlignmentBytes - 1) / kValueAlignmentBytes *
         kValueAlignmentBytes;
}

template <typename T>
CudaError UploadVector(const std::vector<T>& values, CudaBuffer* buffer, void* stream) {
  const size_t size_bytes = values.size() * sizeof(T);
  if (buffer->data() == nullptr) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(buffer->Allocate(size_bytes));
  }
  return CopyAsync(CudaCopy::kHostToDevice, values.data(), size_bytes, buffer->data(),
                   stream);
}

}  // namespace

std::vector<int> OrdinalsOf(const std::vector<GpuLearner>& learners) {
  std::vector<int> ordinals;
  for (const GpuLearner& learner : learners) {
    if (std::find(ordinals.begin(), ordinals.end(), learner.ordinal) ==
        ordinals.end()) {
      ordinals.push_back(learner.ordinal);
    }
  }
  return ordinals;
}

GpuSma::GpuSma(std::vector<GpuLearner> learners, CentralModel* central,
               std::chrono::microseconds spin, double alpha, int64_t period,
               std::unique_ptr<Reducer> reducer)
    : Synchroniser(static_cast<int>(learners.size()), central, spin),
      learners_(std::move(learners)),
      alpha_(alpha),
      period_(period),
      reducer_(std::move(reducer)),
      ready_(learners_.size()),
      waits_(learners_.size()) {
  const std::vector<int> ordinals = OrdinalsOf(learners_);
  gpus_.resize(ordinals.size());
  for (size_t g = 0; g < ordinals.size(); ++g) gpus_[g].ordinal = ordinals[g];
  for (int j = 0; j < num_learners(); ++j) {
    const auto place =
        std::find(ordinals.begin(), ordinals.end(), learners_[j].ordinal);
    gpu_index_.push_back(static_cast<int>(place - ordinals.begin()));
    gpu_of(j).learners.push_back(j);
  }
  std::lock_guard<std::mutex> lock(mu_);
  CheckLocked(Open());
}

CudaError GpuSma::Open() {
  for (Gpu& gpu : gpus_) {
    CudaDeviceGuard guard(gpu.ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(guard.error());
    TENSORBOW_RETURN_IF_CUDA_ERROR(gpu.stream.Create(/*urgent=*/true));
    TENSORBOW_RETURN_IF_CUDA_ERROR(gpu.prepared.Create());
  }
  return "";
}

GpuSma::~GpuSma() {
  // Nothing that is enqueued may outlive the memory it uses.
  for (const GpuLearner& learner : learners_) SynchroniseStream(learner.compute_stream);
  for (const Gpu& gpu : gpus_) {
    if (gpu.stream.get() != nullptr) SynchroniseStream(gpu.stream.get());
  }
}

std::string GpuSma::error() const {
  if (!failed_.load(std::memory_order_acquire)) return "";
  std::lock_guard<std::mutex> lock(mu_);
  return error_;
}

bool GpuSma::Check(const CudaError& error) {
  if (error.empty()) return true;
  std::lock_guard<std::mutex> lock(mu_);
  return CheckLocked(error);
}

bool GpuSma::CheckLocked(const CudaError& error) {
  if (error.empty()) return true;
  if (error_.empty()) error_ = error;
  failed_.store(true, std::memory_order_release);
  return false;
}

// ------------------------------------------------------------------- between runs

void GpuSma::Prepare(const TrainedSet& set) {
  corrections_.resize(central()->num_variables());
  for (int member = 0; member < set.size(); ++member) {
    corrections_[set.variable(member)].resize(num_learners());
  }
  std::lock_guard<std::mutex> lock(mu_);
  CheckLocked(PrepareLocked(set));
}

CudaError GpuSma::PrepareLocked(const TrainedSet& set) {
  // What the compute streams were given since the last run belongs before this one.
  for (int j = 0; j < num_learners(); ++j) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(RecordReady(j));
  }
  TENSORBOW_RETURN_IF_CUDA_ERROR(AddVariables());
  bool awaited = false;
  for (int member = 0; member < set.size(); ++member) {
    const int v = set.variable(member);
    if (states_[v].version == central()->variable(v).version()) continue;
    if (!awaited) TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitLearners());
    awaited = true;
    TENSORBOW_RETURN_IF_CUDA_ERROR(Upload(v));
  }
  SetTables* tables = nullptr;
  return TablesOf(set, &tables);
}

CudaError GpuSma::AddVariables() {
  for (Gpu& gpu : gpus_) TENSORBOW_RETURN_IF_CUDA_ERROR(AddVariablesTo(&gpu));
  states_.resize(central()->num_variables());
  return "";
}

CudaError GpuSma::AddVariablesTo(Gpu* gpu) {
  const int first = static_cast<int>(gpu->values.size());
  const int count = central()->num_variables();
  if (first == count) return "";
  const int arrays = central()->averages() ? 3 : 2;
  int64_t total_bytes = 0;
  std::vector<int64_t> size_bytes;  // of one array
  for (int v = first; v < count; ++v) {
    const CentralModel::Variable& variable = central()->variable(v);
    size_bytes.push_back(
        Aligned(variable.size() * AccumulatorSizeBytes(variable.type())));
    total_bytes += arrays * size_bytes.back();
  }
  CudaDeviceGuard guard(gpu->ordinal);
  CudaBuffer chunk;
  TENSORBOW_RETURN_IF_CUDA_ERROR(chunk.Allocate(total_bytes));
  char* place = chunk.as<char>();
  for (const int64_t bytes : size_bytes) {
    gpu->values.push_back(
        {place, place + bytes, arrays == 3 ? place + 2 * bytes : nullptr});
    place += arrays * bytes;
  }
  gpu->chunks.push_back(std::move(chunk));
  return "";
}

CudaError GpuSma::Upload(int v) {
  CentralModel::Variable& variable = central()->variable(v);
  const size_t size_bytes = variable.size() * AccumulatorSizeBytes(variable.type());
  const void* const average = variable.average<char>();  // with z taken in
  for (Gpu& gpu : gpus_) {
    CudaDeviceGuard guard(gpu.ordinal);
    const Values& values = gpu.values[v];
    const auto copy = [&](const void* from, void* to) {
      return CopyAsync(CudaCopy::kHostToDevice, from, size_bytes, to, gpu.stream.get());
    };
    TENSORBOW_RETURN_IF_CUDA_ERROR(copy(variable.current<char>(), values.next));
    TENSORBOW_RETURN_IF_CUDA_ERROR(copy(variable.other<char>(), values.current));
    if (average != nullptr) {
      TENSORBOW_RETURN_IF_CUDA_ERROR(copy(average, values.average));
    }
  }
  states_[v] = {variable.version(), /*newer=*/false, variable.iterations(),
                variable.iterations()};
  return "";
}

std::string GpuSma::Collect() {
  std::lock_guard<std::mutex> lock(mu_);
  if (error_.empty()) CheckLocked(CollectLocked());
  return error_;
}

CudaError GpuSma::CollectLocked() {
  const Gpu& gpu = gpus_[0];  // they are all the same
  CudaDeviceGuard guard(gpu.ordinal);
  for (size_t v = 0; v < states_.size(); ++v) {
    State& state = states_[v];
    CentralModel::Variable& variable = central()->variable(v);
    if (!state.newer || state.version != variable.version()) continue;
    const size_t size_bytes = variable.size() * AccumulatorSizeBytes(variable.type());
    const auto copy = [&](const void* from, void* to) {
      return CopyAsync(CudaCopy::kDeviceToHost, from, size_bytes, to, gpu.stream.get());
    };
    TENSORBOW_RETURN_IF_CUDA_ERROR(copy(gpu.values[v].next, variable.current<char>()));
    TENSORBOW_RETURN_IF_CUDA_ERROR(copy(gpu.values[v].current, variable.other<char>()));
    if (gpu.values[v].average != nullptr) {
      TENSORBOW_RETURN_IF_CUDA_ERROR(
          copy(gpu.values[v].average, variable.average_data()));
    }
    variable.GoOnFrom(state.iterations, state.taken_in);
    state.version = variable.version();
    state.newer = false;
  }
  return SynchroniseStream(gpu.stream.get());
}

void GpuSma::Restart(const TrainedSet& set) {
  Prepare(set);
  std::lock_guard<std::mutex> lock(mu_);
  if (error_.empty()) CheckLocked(RestartLocked(set));
}

CudaError GpuSma::RestartLocked(const TrainedSet& set) {
  SetTables* tables = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TablesOf(set, &tables));
  TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitLearners());
  TENSORBOW_RETURN_IF_CUDA_ERROR(Launch(SmaPass::kRestart, set, tables, {}));
  for (int member = 0; member < set.size(); ++member) {
    states_[set.variable(member)].newer = true;
  }
  TENSORBOW_RETURN_IF_CUDA_ERROR(RecordPrepared());
  for (int j = 0; j < num_learners(); ++j) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        gpu_of(j).prepared.Wait(learners_[j].compute_stream));
  }
  return "";
}

// ------------------------------------------------------------------------- tables

CudaError GpuSma::TablesOf(const TrainedSet& set, SetTables** tables) {
  std::vector<int> variables;
  for (int m = 0; m < set.size(); ++m) variables.push_back(set.variable(m));
  SetTables& found = tables_[variables];
  *tables = &found;
  if (found.layout != nullptr) return "";
  std::vector<BlockLayout::Member> members;
  for (int v : variables) {
    members.push_back({central()->variable(v).type(), central()->variable(v).size()});
  }
  auto layout = std::make_unique<BlockLayout>(std::move(members));
  found.tables = std::vector<Table>(gpus_.size());
  for (size_t g = 0; g < gpus_.size(); ++g) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(MakeTable(gpus_[g], set, *layout, &found.tables[g]));
  }
  found.layout = std::move(layout);
  return "";
}

CudaError GpuSma::MakeTable(const Gpu& gpu, const TrainedSet& set,
                            const BlockLayout& layout, Table* table) {
  CudaDeviceGuard guard(gpu.ordinal);
  for (int m = 0; m < set.size(); ++m) {
    const Values& values = gpu.values[set.variable(m)];
    table->members.push_back(
        {values.current, values.next, values.average, layout.flat(m), /*packed=*/0});
  }
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      UploadVector(layout.blocks(), &table->blocks_buffer, gpu.stream.get()));
  if (gpus_.size() > 1) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(table->flat.Allocate(layout.flat_bytes()));
    // Also the gaps between members are added up.
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        ClearAsync(table->flat.data(), layout.flat_bytes(), gpu.stream.get()));
  }
  return RefreshWeights(gpu, set, layout, table);
}

CudaError GpuSma::RefreshWeights(const Gpu& gpu, const TrainedSet& set,
                                 const BlockLayout& layout, Table* table) {
  std::vector<const void*> weights;
  weights.reserve(set.size() * gpu.learners.size());
  for (int m = 0; m < set.size(); ++m) {
    for (int j : gpu.learners) weights.push_back(set.weights(j, m));
  }
  if (weights == table->weights) return "";
  table->weights = std::move(weights);
  for (int m = 0; m < set.size(); ++m) {
    const int64_t pack_bytes = kSmaWidth * ElementSizeBytes(layout.member(m).type);
    bool packed = true;
    for (int j : gpu.learners) {
      packed &= reinterpret_cast<uintptr_t>(set.weights(j, m)) %
                    std::min<int64_t>(pack_bytes, 16) ==
                0;
    }
    table->members[m].packed = packed;
  }
  CudaDeviceGuard guard(gpu.ordinal);
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      UploadVector(table->weights, &table->weights_buffer, gpu.stream.get()));
  return UploadVector(table->members, &table->members_buffer, gpu.stream.get());
}

// ----------------------------------------------------------------------- launches

CudaError GpuSma::LaunchOn(const Gpu& gpu, SmaPass pass, const TrainedSet& set,
                           SetTables* tables, size_t index,
                           const SmaArguments& arguments) {
  Table& table = tables->tables[index];
  const BlockLayout& layout = *tables->layout;
  TENSORBOW_RETURN_IF_CUDA_ERROR(RefreshWeights(gpu, set, layout, &table));
  CudaDeviceGuard guard(gpu.ordinal);
  const SmaTable device = {
      table.blocks_buffer.as<SmaBlock>(), table.members_buffer.as<SmaMember>(),
      table.weights_buffer.as<const void*>(), static_cast<int>(gpu.learners.size())};
  const bool advances = pass == SmaPass::kAdvance || pass == SmaPass::kAdvanceBy;
  const auto decay = [&](int member) {
    return advances ? AverageDecay(set.variable(member)) : -1;
  };
  for (const BlockLayout::Launch& launch : layout.Launches(decay)) {
    SmaArguments mine = arguments;
    mine.average_decay = launch.value;
    if (table.flat.data() != nullptr) {
      mine.flat = table.flat.as<char>() + layout.part_begin_bytes(launch.type);
    }
    TENSORBOW_RETURN_IF_CUDA_ERROR(LaunchSmaPass(
        pass, launch.type, device, mine, launch.first, launch.count, gpu.stream.get()));
  }
  return "";
}

CudaError GpuSma::Launch(SmaPass pass, const TrainedSet& set, SetTables* tables,
                         const SmaArguments& arguments) {
  for (size_t g = 0; g < gpus_.size(); ++g) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(LaunchOn(gpus_[g], pass, set, tables, g, arguments));
  }
  return "";
}

CudaError GpuSma::Reduce(SetTables* tables) {
  for (const BlockLayout::Part& part : tables->layout->parts()) {
    std::vector<void*> buffers, streams;
    for (size_t g = 0; g < gpus_.size(); ++g) {
      buffers.push_back(tables->tables[g].flat.as<char>() + part.begin_bytes);
      streams.push_back(gpus_[g].stream.get());
    }
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        reducer_->Sum(part.type, part.size, buffers, streams));
  }
  return "";
}

CudaError GpuSma::AwaitLearners() {
  for (const Gpu& gpu : gpus_) {
    for (int j : gpu.learners) {
      TENSORBOW_RETURN_IF_CUDA_ERROR(ready_[j].Wait(gpu.stream.get()));
    }
  }
  return "";
}

CudaError GpuSma::RecordPrepared() {
  for (Gpu& gpu : gpus_) {
    CudaDeviceGuard guard(gpu.ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(gpu.prepared.Record(gpu.stream.get()));
  }
  return "";
}

CudaError GpuSma::RecordReady(int learner) {
  CudaDeviceGuard guard(learners_[learner].ordinal);
  return ready_[learner].Record(learners_[learner].compute_stream);
}

double GpuSma::AverageDecay(int variable) const {
  const State& state = states_[variable];
  if (!central()->averages() || state.taken_in >= state.iterations) return -1;
  return CentralModel::Decay(central()->ema_decay(), state.iterations);
}

// ------------------------------------------------------------------------- tasks

bool GpuSma::Due(const TrainedSet&, int64_t iteration) const {
  return (iteration + 1) % period_ == 0;
}

bool GpuSma::AdvanceTo(int learner) {
  const int64_t iteration = number(learner);
  if (failed_.load(std::memory_order_acquire)) return false;
  if (advanced_to_.load(std::memory_order_acquire) >= iteration) return true;
  std::lock_guard<std::mutex> lock(mu_);
  if (!error_.empty()) return false;
  if (advanced_to_.load(std::memory_order_relaxed) >= iteration) return true;
  if (!CheckLocked(AdvanceLocked(*set()))) return false;
  advanced_to_.store(iteration, std::memory_order_release);
  return true;
}

CudaError GpuSma::AdvanceLocked(const TrainedSet& set) {
  SetTables* tables = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TablesOf(set, &tables));
  SmaArguments arguments;
  arguments.alpha = alpha_;
  arguments.momentum = set.momentum();
  under_way_ = true;
  TENSORBOW_RETURN_IF_CUDA_ERROR(AwaitLearners());
  if (gpus_.size() == 1) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(Launch(SmaPass::kAdvance, set, tables, arguments));
  } else {
    TENSORBOW_RETURN_IF_CUDA_ERROR(Launch(SmaPass::kSum, set, tables, arguments));
    TENSORBOW_RETURN_IF_CUDA_ERROR(Reduce(tables));
    TENSORBOW_RETURN_IF_CUDA_ERROR(Launch(SmaPass::kAdvanceBy, set, tables, arguments));
  }
  for (int member = 0; member < set.size(); ++member) {
    State& state = states_[set.variable(member)];
    state.taken_in = state.iterations;
    state.newer = true;
  }
  return RecordPrepared();
}

bool GpuSma::WaitOnStream(int learner) {
  LearnerWait& wait = waits_[learner];
  const int64_t iteration = number(learner);
  if (wait.number == iteration && !wait.captured) return true;
  void* const stream = learners_[learner].compute_stream;
  bool capturing = false;
  if (!Check(IsCapturing(stream, &capturing))) return false;
  if (wait.number == iteration && capturing) return true;
  if (!Check(gpu_of(learner).prepared.Wait(stream))) return false;
  wait = {iteration, capturing};
  return true;
}

bool GpuSma::EnterAll(int learner, int member) {
  if (!AwaitTurn(learner)) return false;
  if (!IsDue(learner)) return true;
  if (AdvanceTo(learner) && WaitOnStream(learner)) return true;
  Abort(learner);
  return false;
}

bool GpuSma::EnterReplay(int learner) {
  if (!AwaitTurn(learner)) return false;
  if (IsDue(learner) && !AdvanceTo(learner)) {
    Abort(learner);
    return false;
  }
  for (int member = 0; member < set()->size(); ++member) {
    if (set()->corrects_itself(member)) Updated(learner, member);
  }
  return true;
}

const void* GpuSma::DeviceTarget(int learner, int member) const {
  if (!IsDue(learner)) return nullptr;
  return gpus_[gpu_index_[learner]].values[set()->variable(member)].current;
}

void GpuSma::Remember(int learner, const TrainedSet& set, int member) {
  const int v = set.variable(member);
  const CentralModel::Variable& variable = central()->variable(v);
  const GpuLearner& mine = learners_[learner];
  CudaDeviceGuard guard(mine.ordinal);
  CudaBuffer& correction = corrections_[v][learner];
  if (correction.data() == nullptr &&
      !Check(correction.Allocate(variable.size() *
                                 AccumulatorSizeBytes(variable.type())))) {
    return;
  }
  Check(LaunchRemember(variable.type(), set.weights(learner, member),
                       gpu_of(learner).values[v].current, alpha_, variable.size(),
                       correction.data(), mine.compute_stream));
}

void GpuSma::Correct(int learner, const TrainedSet& set, int member, bool remembered) {
  const int v = set.variable(member);
  const CentralModel::Variable& variable = central()->variable(v);
  const GpuLearner& mine = learners_[learner];
  void* const w = set.weights(learner, member);
  CudaDeviceGuard guard(mine.ordinal);
  if (remembered) {
    Check(LaunchSubtract(variable.type(), corrections_[v][learner].data(),
                         variable.size(), w, mine.compute_stream));
  } else {
    Check(LaunchCorrect(variable.type(), gpu_of(learner).values[v].current, alpha_,
                        variable.size(), w, mine.compute_stream));
  }
}

void GpuSma::Leaving(int learner) { Check(RecordReady(learner)); }

void GpuSma::Publish(const TrainedSet& set, const std::vector<int>& absent) {
  std::lock_guard<std::mutex> lock(mu_);
  under_way_ = false;
  if (!absent.empty() && error_.empty()) CheckLocked(ExcludeLocked(set, absent));
  for (int member = 0; member < set.size(); ++member) {
    ++states_[set.variable(member)].iterations;
  }
}

CudaError GpuSma::ExcludeLocked(const TrainedSet& set, const std::vector<int>& absent) {
  SetTables* tables = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TablesOf(set, &tables));
  const bool several = gpus_.size() > 1;
  for (size_t g = 0; g < gpus_.size(); ++g) {
    const Gpu& gpu = gpus_[g];
    if (several) {
      CudaDeviceGuard guard(gpu.ordinal);
      CudaBuffer& flat = tables->tables[g].flat;
      TENSORBOW_RETURN_IF_CUDA_ERROR(
          ClearAsync(flat.data(), flat.size_bytes(), gpu.stream.get()));
    }
    for (int j : absent) {
      const auto place = std::find(gpu.learners.begin(), gpu.learners.end(), j);
      if (place == gpu.learners.end()) continue;
      SmaArguments arguments;
      arguments.alpha = alpha_;
      arguments.learner = static_cast<int>(place - gpu.learners.begin());
      TENSORBOW_RETURN_IF_CUDA_ERROR(
          LaunchOn(gpu, several ? SmaPass::kAddAbsent : SmaPass::kExclude, set, tables,
                   g, arguments));
    }
  }
  if (!several) return "";
  TENSORBOW_RETURN_IF_CUDA_ERROR(Reduce(tables));
  return Launch(SmaPass::kExcludeBy, set, tables, {});
}

void GpuSma::Ending(const TrainedSet& set, bool) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!std::exchange(under_way_, false) || !error_.empty()) return;
  // The iteration was aborted, or none: z is what it began with, and its momentum is
  // forgotten (of the whole set, since all of it has been advanced).
  SetTables* tables = nullptr;
  if (CheckLocked(TablesOf(set, &tables))) {
    CheckLocked(Launch(SmaPass::kDiscard, set, tables, {}));
  }
}

}  // namespace tensorbow
