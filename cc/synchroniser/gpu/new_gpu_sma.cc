#include "cc/synchroniser/gpu/new_gpu_sma.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/log/log.h"
#include "cc/reducer/host_reducer.h"
#include "cc/reducer/nccl_reducer.h"
#include "cc/synchroniser/gpu/gpu_sma.h"

namespace tensorbow {
namespace {

std::unique_ptr<Reducer> NewReducer(const std::vector<int>& ordinals, bool on_host) {
  if (ordinals.size() < 2) return nullptr;
  if (on_host) return std::make_unique<HostReducer>(ordinals);
  std::string why;
  std::unique_ptr<Reducer> reducer = NewNcclReducer(ordinals, &why);
  if (reducer != nullptr) return reducer;
  LOG(WARNING) << "TensorBow averages between GPUs on the host, which is slower than "
                  "NCCL: "
               << why;
  return std::make_unique<HostReducer>(ordinals);
}

}  // namespace

DeviceSma NewGpuSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                    CentralModel* central) {
  std::unique_ptr<Reducer> reducer =
      NewReducer(OrdinalsOf(learners), options.reduces_on_host);
  auto sma = std::make_unique<GpuSma>(options, std::move(learners), central,
                                      std::move(reducer));
  std::string error = sma->error();
  if (!error.empty()) return {nullptr, nullptr, std::move(error)};
  GpuSma* const queue = sma.get();
  return {std::move(sma), queue, ""};
}

}  // namespace tensorbow
