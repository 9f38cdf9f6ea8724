#include "cc/synchroniser/gpu/sma_passes.h"

#include <algorithm>
#include <utility>

#include "cc/synchroniser/gpu/sma_kernels.h"

namespace tensorbow {
namespace {

template <typename T>
CudaError UploadVector(const std::vector<T>& values, CudaBuffer* buffer, void* stream) {
  const size_t size_bytes = values.size() * sizeof(T);
  if (buffer->data() == nullptr) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(buffer->Allocate(size_bytes));
  }
  return CopyAsync(CudaCopy::kHostToDevice, values.data(), size_bytes, buffer->data(),
                   stream);
}

// Returns whether all these replicas are aligned to packs of `pack_bytes`.
bool AreAligned(const void* const* weights, size_t count, int64_t pack_bytes) {
  return std::all_of(weights, weights + count, [=](const void* w) {
    return reinterpret_cast<uintptr_t>(w) % pack_bytes == 0;
  });
}

}  // namespace

class SmaPasses::Tables {
 public:
  std::unique_ptr<BlockLayout> layout;
  std::vector<Table> tables;  // by GPU
};

SmaPasses::SmaPasses(const std::vector<SmaGpu>* gpus, const CentralModel* central,
                     Reducer* reducer)
    : gpus_(gpus), central_(central), reducer_(reducer), flat_(gpus->size()) {}

SmaPasses::~SmaPasses() = default;

// ------------------------------------------------------------------------- tables

CudaError SmaPasses::Find(const TrainedSet& set, Tables** tables) {
  std::vector<int> variables;
  for (int m = 0; m < set.size(); ++m) variables.push_back(set.variable(m));
  std::unique_ptr<Tables>& found = tables_[variables];
  if (found == nullptr) {
    auto made = std::make_unique<Tables>();
    TENSORBOW_RETURN_IF_CUDA_ERROR(Make(set, made.get()));
    found = std::move(made);
  }
  *tables = found.get();
  return "";
}

CudaError SmaPasses::Make(const TrainedSet& set, Tables* tables) {
  std::vector<BlockLayout::Member> members;
  for (int m = 0; m < set.size(); ++m) {
    const CentralModel::Variable& variable = central_->variable(set.variable(m));
    members.push_back({variable.type(), variable.size()});
  }
  tables->layout = std::make_unique<BlockLayout>(std::move(members));
  tables->tables = std::vector<Table>(num_gpus());
  for (int g = 0; g < num_gpus(); ++g) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        MakeTable(g, set, *tables->layout, &tables->tables[g]));
  }
  return "";
}

CudaError SmaPasses::MakeTable(int gpu, const TrainedSet& set,
                               const BlockLayout& layout, Table* table) {
  const SmaGpu& its = (*gpus_)[gpu];
  CudaDeviceGuard guard(its.ordinal);
  for (int m = 0; m < set.size(); ++m) {
    const SmaValues& values = its.values[set.variable(m)];
    table->members.push_back({values.target, values.next, values.average,
                              layout.flat(m), /*packed=*/0, /*participants=*/0});
  }
  table->weights.resize(set.size() * its.learners.size());
  if (num_gpus() > 1) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(GrowFlat(gpu, layout.flat_bytes()));
  }
  return UploadVector(layout.blocks(), &table->blocks_buffer, its.stream.get());
}

CudaError SmaPasses::GrowFlat(int gpu, int64_t size_bytes) {
  CudaBuffer& flat = flat_[gpu];
  if (static_cast<int64_t>(flat.size_bytes()) >= size_bytes) return "";
  void* const stream = (*gpus_)[gpu].stream.get();
  TENSORBOW_RETURN_IF_CUDA_ERROR(SynchroniseStream(stream));  // it may be in use
  flat = CudaBuffer();
  TENSORBOW_RETURN_IF_CUDA_ERROR(flat.Allocate(size_bytes));
  // The gaps between members are added up as well.
  return ClearAsync(flat.data(), size_bytes, stream);
}

CudaError SmaPasses::Refresh(const TrainedSet& set, const Participants& participants,
                             Tables* tables) {
  for (int g = 0; g < num_gpus(); ++g) {
    const SmaGpu& gpu = (*gpus_)[g];
    Table& table = tables->tables[g];
    const size_t num_learners = gpu.learners.size();
    bool changed = table.weights_buffer.data() == nullptr;
    for (int m = 0; m < set.size(); ++m) {
      const std::vector<int>& here = participants(m);
      const int32_t count = static_cast<int32_t>(here.size());
      changed |= std::exchange(table.members[m].participants, count) != count;
      for (size_t k = 0; k < num_learners; ++k) {
        const int j = gpu.learners[k];
        const void* const w = std::binary_search(here.begin(), here.end(), j)
                                  ? set.weights(j, m)
                                  : nullptr;
        changed |= std::exchange(table.weights[m * num_learners + k], w) != w;
      }
    }
    if (!changed) continue;
    for (int m = 0; m < set.size(); ++m) {
      const ElementType type = tables->layout->member(m).type;
      table.members[m].packed =
          AreAligned(&table.weights[m * num_learners], num_learners,
                     std::min<int64_t>(kSmaWidth * ElementSizeBytes(type), 16));
    }
    CudaDeviceGuard guard(gpu.ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        UploadVector(table.weights, &table.weights_buffer, gpu.stream.get()));
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        UploadVector(table.members, &table.members_buffer, gpu.stream.get()));
  }
  return "";
}

// ----------------------------------------------------------------------- launches

CudaError SmaPasses::LaunchOn(int gpu, SmaPass pass, const SmaArguments& arguments,
                              const Decay& decay, Tables* tables) {
  const SmaGpu& its = (*gpus_)[gpu];
  const Table& table = tables->tables[gpu];
  const BlockLayout& layout = *tables->layout;
  CudaDeviceGuard guard(its.ordinal);
  const SmaTable device = {
      table.blocks_buffer.as<SmaBlock>(), table.members_buffer.as<SmaMember>(),
      table.weights_buffer.as<const void*>(), static_cast<int>(its.learners.size())};
  for (const BlockLayout::Launch& launch : layout.Launches(decay)) {
    SmaArguments mine = arguments;
    mine.average_decay = launch.value;
    if (flat_[gpu].data() != nullptr) {
      mine.flat = flat_[gpu].as<char>() + layout.part_begin_bytes(launch.type);
    }
    TENSORBOW_RETURN_IF_CUDA_ERROR(LaunchSmaPass(
        pass, launch.type, device, mine, launch.first, launch.count, its.stream.get()));
  }
  return "";
}

CudaError SmaPasses::Launch(SmaPass pass, const SmaArguments& arguments,
                            const Decay& decay, Tables* tables) {
  for (int g = 0; g < num_gpus(); ++g) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(LaunchOn(g, pass, arguments, decay, tables));
  }
  return "";
}

CudaError SmaPasses::ClearSums(Tables* tables) {
  for (int g = 0; g < num_gpus(); ++g) {
    CudaDeviceGuard guard((*gpus_)[g].ordinal);
    TENSORBOW_RETURN_IF_CUDA_ERROR(ClearAsync(
        flat_[g].data(), tables->layout->flat_bytes(), (*gpus_)[g].stream.get()));
  }
  return "";
}

CudaError SmaPasses::Reduce(Tables* tables) {
  for (const BlockLayout::Part& part : tables->layout->parts()) {
    std::vector<void*> buffers, streams;
    for (int g = 0; g < num_gpus(); ++g) {
      buffers.push_back(flat_[g].as<char>() + part.begin_bytes);
      streams.push_back((*gpus_)[g].stream.get());
    }
    TENSORBOW_RETURN_IF_CUDA_ERROR(
        reducer_->Sum(part.type, part.size, buffers, streams));
  }
  return "";
}

}  // namespace tensorbow
