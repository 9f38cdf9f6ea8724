// SMA's passes over whole trained sets, on the sync streams of all GPUs, and the tables
// of the sets in device memory.
//
// Refers to the GPUs, which outlive it; owns the tables. Thread-compatible.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_SMA_PASSES_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_SMA_PASSES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/device/gpu/cuda_event.h"
#include "cc/device/gpu/cuda_memory.h"
#include "cc/device/gpu/cuda_stream.h"
#include "cc/reducer/reducer.h"
#include "cc/synchroniser/gpu/block_layout.h"
#include "cc/synchroniser/gpu/sma_elements.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

// A variable of the model on one GPU, in the accumulation type; see SmaMember.
struct SmaValues {
  char* target;
  char* next;
  char* average;
};

struct SmaGpu {
  int ordinal;
  std::vector<int> learners;  // ascending
  CudaStream stream;
  CudaEvent prepared;              // on `stream`
  std::vector<CudaBuffer> chunks;  // hold the values
  std::vector<SmaValues> values;   // by variable of the model
};

class SmaPasses {
 public:
  // A trained set, by its variables.
  class Tables;

  // `reducer`: null if there is one GPU.
  SmaPasses(const std::vector<SmaGpu>* gpus, const CentralModel* central,
            Reducer* reducer);
  ~SmaPasses();

  // All methods return an error text, empty on success.

  // Finds the tables of the set; the first call allocates them. REQUIRES: the GPUs have
  // the values of the set's variables.
  CudaError Find(const TrainedSet& set, Tables** tables);
  // Updates the tables' addresses of replicas. `participants`: of a member,
  // ascending.
  using Participants = std::function<const std::vector<int>&(int member)>;
  CudaError Refresh(const TrainedSet& set, const Participants& participants,
                    Tables* tables);

  // Launch a pass on every GPU or one of them. `decay`: by member, for
  // SmaArguments::average_decay; members without one are left out.
  using Decay = std::function<std::optional<double>(int member)>;
  CudaError Launch(SmaPass pass, const SmaArguments& arguments, const Decay& decay,
                   Tables* tables);
  CudaError LaunchOn(int gpu, SmaPass pass, const SmaArguments& arguments,
                     const Decay& decay, Tables* tables);
  // Clears `flat` on all GPUs; adds it up over them.
  CudaError ClearSums(Tables* tables);
  CudaError Reduce(Tables* tables);

 private:
  // A trained set on one GPU.
  struct Table {
    std::vector<SmaMember> members;
    std::vector<const void*> weights;  // see SmaTable
    CudaBuffer members_buffer;
    CudaBuffer weights_buffer;
    CudaBuffer blocks_buffer;
  };

  CudaError Make(const TrainedSet& set, Tables* tables);
  CudaError MakeTable(int gpu, const TrainedSet& set, const BlockLayout& layout,
                      Table* table);
  CudaError GrowFlat(int gpu, int64_t size_bytes);
  int num_gpus() const { return static_cast<int>(gpus_->size()); }

  const std::vector<SmaGpu>* const gpus_;  // not owned
  const CentralModel* const central_;      // not owned
  Reducer* const reducer_;                 // not owned, or null
  std::map<std::vector<int>, std::unique_ptr<Tables>> tables_;
  // The buffers that GPUs add up, by GPU, for all sets. Empty for one GPU.
  std::vector<CudaBuffer> flat_;
};

// The decay of passes that keep the average.
inline std::optional<double> WithoutAverage(int) { return -1; }

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_SMA_PASSES_H_
