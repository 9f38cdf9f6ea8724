// The resources of one learner on a GPU that others use, too: a StreamExecutor of its
// own, hence cuDNN and cuBLAS handles of its own, streams and an event manager.
//
// All executors of a GPU use its primary context, as TensorFlow's own does. A stream
// group is never destroyed, but pooled: TensorFlow keeps pointers to executors as long
// as the process lives (autotuning results, event managers). The pool is thread-safe; a
// group belongs to one learner at a time.
#ifndef TENSORBOW_CC_DEVICE_GPU_STREAM_GROUP_H_
#define TENSORBOW_CC_DEVICE_GPU_STREAM_GROUP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tensorflow/core/common_runtime/device/device_event_mgr.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace tensorbow {

struct StreamGroup {
  int ordinal = 0;  // of the GPU
  std::unique_ptr<stream_executor::StreamExecutor> executor;
  std::unique_ptr<stream_executor::Stream> compute;
  std::unique_ptr<stream_executor::Stream> host_to_device;
  std::unique_ptr<stream_executor::Stream> device_to_host;
  std::unique_ptr<stream_executor::Stream> device_to_device;
  tensorflow::EventMgr* events = nullptr;  // TensorFlow's, never destroyed
};

// Returns a group to the pool.
struct ReturnToPool {
  void operator()(StreamGroup* group) const;
};
using StreamGroupHandle = std::unique_ptr<StreamGroup, ReturnToPool>;

// Takes a group of GPU `ordinal` from the pool, or makes one if the pool has none.
absl::StatusOr<StreamGroupHandle> TakeStreamGroup(
    int ordinal, const tensorflow::GPUOptions& options);

// Returns the number of GPUs that this process may use; 0 without a driver.
int NumGpus();

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_STREAM_GROUP_H_
