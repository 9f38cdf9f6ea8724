#include "cc/synchroniser/gpu/new_gpu_sma.h"

#include <string>
#include <utility>

#include "absl/log/log.h"
#include "cc/reducer/host_reducer.h"
#include "cc/reducer/nccl_reducer.h"

namespace tensorbow {
namespace {

std::unique_ptr<Reducer> NewReducer(const std::vector<int>& ordinals) {
  if (ordinals.size() < 2) return nullptr;
  std::string why;
  std::unique_ptr<Reducer> reducer = NewNcclReducer(ordinals, &why);
  if (reducer != nullptr) return reducer;
  LOG(WARNING) << "TensorBow averages between GPUs on the host, which is slower than "
                  "NCCL: "
               << why;
  return std::make_unique<HostReducer>(ordinals);
}

}  // namespace

std::unique_ptr<Synchroniser> NewGpuSma(std::vector<GpuLearner> learners,
                                        CentralModel* central,
                                        std::chrono::microseconds spin, double alpha,
                                        int64_t period) {
  std::unique_ptr<Reducer> reducer = NewReducer(OrdinalsOf(learners));
  return std::make_unique<GpuSma>(std::move(learners), central, spin, alpha, period,
                                  std::move(reducer));
}

}  // namespace tensorbow
