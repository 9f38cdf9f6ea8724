// The interface of an accelerator on which a learner computes: a GPU's stream group.
//
// The library for the device registers its backend when it is loaded; a session asks
// for it. This file does not depend on the device's runtime.
#ifndef TENSORBOW_CC_DEVICE_ACCELERATOR_H_
#define TENSORBOW_CC_DEVICE_ACCELERATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/device/learner_device.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// The part of an accelerator that one learner uses. Kernels enqueue work and return;
// the device executes it in that order. One thread at a time.
class AcceleratorDevice : public LearnerDevice {
 public:
  using LearnerDevice::LearnerDevice;

  // Recorded work that can be replayed; see Record(). REQUIRES at destruction: no
  // replay is under way.
  class Recording {
   public:
    virtual ~Recording() = default;
  };

  // Take and return memory: an equal part of `bytes`, which `learners` share. Tasks are
  // executed in between only. Tensors may outlive End(). REQUIRES at End(): no kernel
  // and no recording is left.
  virtual void Begin(int learners, int64_t bytes) = 0;
  virtual void End() = 0;

  // Describes the device and the learner's part of it in a text for users.
  virtual std::string Description() = 0;
  // Returns the device as TensorFlow sees it. All learners' devices have the same name.
  virtual tensorflow::Device* device() = 0;
  // Return the accelerator's number, and the stream of the learner's tasks as the
  // runtime's own handle: null if tasks are executed at once.
  virtual int ordinal() const = 0;
  virtual void* stream() = 0;

  // Copies between runs, after all work enqueued before; the copy is complete on
  // return. Source and destination have the same type and size.
  virtual absl::Status CopyIn(const tensorflow::Tensor& host,
                              tensorflow::Tensor* on_device) = 0;
  virtual absl::Status CopyOut(const tensorflow::Tensor& on_device,
                               tensorflow::Tensor* host) = 0;

  // The steps of a learning task. Upload() copies the value of feed number `feed` to
  // the device for the work enqueued until EndTask(); the copy overlaps the work of the
  // task before. Download() fills `host` by the time Finish() has returned. EndTask()
  // waits for the task before this one: a learner is at most one task ahead of its
  // device.
  virtual absl::Status Upload(int feed, const tensorflow::Tensor& host,
                              tensorflow::Tensor* on_device) = 0;
  virtual absl::Status Download(const tensorflow::Tensor& on_device,
                                tensorflow::Tensor* host) = 0;
  virtual absl::Status EndTask() = 0;
  // Waits until all enqueued work is done.
  virtual absl::Status Finish() = 0;

  // Records the work that `enqueue` puts on the device, without executing it. Tensors
  // that it allocates keep their addresses while the recording lives, and may outlive
  // it. Returns the error of `enqueue`, or one that names the op that cannot be
  // recorded; then the device has done nothing.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& enqueue) = 0;
  virtual absl::Status Replay(Recording* recording) = 0;
  // Returns whether recorded work may wait for other learners: each replay then waits
  // for their work enqueued by its start. If not, the waits must be enqueued before a
  // recording and before each replay of it.
  virtual bool records_waits() const { return false; }
  // Enqueues a copy from one tensor on the device to another on it.
  virtual absl::Status Copy(const tensorflow::Tensor& from, tensorflow::Tensor* to) = 0;

  // Return bytes of the device's memory: the peak of this learner, and those that were
  // free for all learners when this one was made.
  virtual int64_t PeakBytes() = 0;
  virtual int64_t LimitBytes() = 0;
};

// A kind of accelerator. Thread-safe.
class AcceleratorBackend {
 public:
  virtual ~AcceleratorBackend() = default;

  // "GPU"
  virtual std::string type() const = 0;
  // Returns the number of devices that this process may use.
  virtual int num_devices() = 0;
  // Makes the device of `learner` on accelerator `ordinal`, still without memory for
  // tensors. `host` is the session's CPU, whose resources the device uses.
  virtual absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tensorflow::SessionOptions& options, tensorflow::Device* host, int ordinal,
      int learner) = 0;
};

// Return and replace the backend of future sessions; not owned, null if there is none.
AcceleratorBackend* Accelerators();
void RegisterAccelerators(AcceleratorBackend* backend);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_ACCELERATOR_H_
