// Model averaging between learners on the streams of accelerators. The library for a
// kind of accelerator registers a factory when it is loaded.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_DEVICE_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_DEVICE_SMA_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/device_queue.h"

namespace tensorbow {

// A learner's device, and the stream of its tasks as the runtime's handle.
struct LearnerStream {
  int ordinal;
  void* stream;
};

struct DeviceSma {
  std::unique_ptr<Algorithm> algorithm;
  DeviceQueue* queue = nullptr;  // owned by the algorithm; null if it needs none
  std::string error;             // if there is no algorithm
};

// `learners` and their streams outlive the algorithm; `central` as in NewSma().
using DeviceSmaFactory = std::function<DeviceSma(const SmaOptions& options,
                                                 std::vector<LearnerStream> learners,
                                                 CentralModel* central)>;

// Registers the factory of sessions to come. Thread-safe.
void RegisterDeviceSma(DeviceSmaFactory factory);
DeviceSma NewDeviceSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                       CentralModel* central);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_DEVICE_SMA_H_
