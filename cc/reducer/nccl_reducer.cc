#include "cc/reducer/nccl_reducer.h"

#include <map>
#include <utility>

#include "cc/support/mutex.h"

// TensorFlow's libraries define its functions, and load NCCL at the first call.
#include "external/cuda_nccl/include/nccl.h"

namespace tensorbow {
namespace {

std::string NcclText(const char* call, ncclResult_t result) {
  if (result == ncclSuccess) return "";
  const char* const text = ncclGetErrorString(result);
  return std::string(call) + ": " + (text == nullptr ? "failed" : text) + " (" +
         std::to_string(static_cast<int>(result)) + ")";
}

// The communicators of the process. Two threads must use neither them nor NCCL's groups
// at the same time.
struct Communicators {
  Mutex mu;
  std::map<std::vector<int>, std::vector<ncclComm_t>> by_ordinals
      TENSORBOW_GUARDED_BY(mu);
};

Communicators& TheCommunicators() {
  static auto* const communicators = new Communicators;
  return *communicators;
}

class NcclReducer : public Reducer {
 public:
  explicit NcclReducer(std::vector<ncclComm_t> communicators)
      : communicators_(std::move(communicators)) {}

  std::string Sum(ElementType type, int64_t n, const std::vector<void*>& buffers,
                  const std::vector<void*>& streams) override {
    MutexLock lock(&TheCommunicators().mu);
    const ncclDataType_t data_type =
        type == ElementType::kFloat64 ? ncclFloat64 : ncclFloat32;
    std::string error = NcclText("ncclGroupStart", ncclGroupStart());
    if (!error.empty()) return error;
    for (size_t g = 0; g < communicators_.size() && error.empty(); ++g) {
      error = NcclText(
          "ncclAllReduce",
          ncclAllReduce(buffers[g], buffers[g], n, data_type, ncclSum,
                        communicators_[g], static_cast<cudaStream_t>(streams[g])));
    }
    const std::string end = NcclText("ncclGroupEnd", ncclGroupEnd());
    return error.empty() ? end : error;
  }

 private:
  const std::vector<ncclComm_t> communicators_;  // by GPU, not owned
};

}  // namespace

std::unique_ptr<Reducer> NewNcclReducer(const std::vector<int>& ordinals,
                                        std::string* why) {
  Communicators& all = TheCommunicators();
  MutexLock lock(&all.mu);
  std::vector<ncclComm_t>& mine = all.by_ordinals[ordinals];
  if (mine.empty()) {
    std::vector<ncclComm_t> made(ordinals.size());
    *why = NcclText(
        "ncclCommInitAll",
        ncclCommInitAll(made.data(), static_cast<int>(made.size()), ordinals.data()));
    if (!why->empty()) return nullptr;
    mine = std::move(made);
  }
  return std::make_unique<NcclReducer>(mine);
}

}  // namespace tensorbow
