// A device beside the CPU on which a learner computes: a GPU's stream group.
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

// The part of an accelerator that one learner uses. Kernels put work on it and return;
// the work is done in the order in which it was put there. One thread at a time.
class AcceleratorDevice : public LearnerDevice {
 public:
  using LearnerDevice::LearnerDevice;

  // Work that has been recorded, to be done again and again; see Record(). REQUIRES at
  // destruction: no replay is under way.
  class Recording {
   public:
    virtual ~Recording() = default;
  };

  // Take and give back memory: an equal part of what `learners` may use together. In
  // between, tasks are executed. Tensors may outlive the end. REQUIRES at the end: no
  // kernel and no recording is left.
  virtual void Begin(int learners) = 0;
  virtual void End() = 0;

  // Describes, for people, the device and what of it the learner has for itself.
  virtual std::string Description() = 0;
  // Returns the device as TensorFlow sees it. All learners' devices have the same name.
  virtual tensorflow::Device* device() = 0;
  // The accelerator's number, and the stream that the learner's tasks are put on as the
  // runtime's own handle: null where tasks are executed at once.
  virtual int ordinal() const = 0;
  virtual void* stream() = 0;

  // Copy, between runs, after all work that was put on the device before; the copy is
  // complete on return. Source and destination have the same type and size.
  virtual absl::Status CopyIn(const tensorflow::Tensor& host,
                              tensorflow::Tensor* on_device) = 0;
  virtual absl::Status CopyOut(const tensorflow::Tensor& on_device,
                               tensorflow::Tensor* host) = 0;

  // Make up a learning task. Upload() brings the value of feed number `feed` to the
  // device for the work that is put there until EndTask(); the copy overlaps the work
  // of the task before. Download() fills `host` by the time Finish() has returned.
  // EndTask() waits until the task before this one is done, so that a learner is at
  // most one task ahead of its device.
  virtual absl::Status Upload(int feed, const tensorflow::Tensor& host,
                              tensorflow::Tensor* on_device) = 0;
  virtual absl::Status Download(const tensorflow::Tensor& on_device,
                                tensorflow::Tensor* host) = 0;
  virtual absl::Status EndTask() = 0;
  // Waits until everything is done.
  virtual absl::Status Finish() = 0;

  // Records the work that `enqueue` puts on the device, which is not done meanwhile.
  // Tensors that it allocates keep their addresses for as long as the recording lives;
  // they may outlive it. An error says which op cannot be recorded, or is that of
  // `enqueue`; then nothing has been done on the device.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& enqueue) = 0;
  virtual absl::Status Replay(Recording* recording) = 0;
  // Returns whether work that is recorded may wait for other learners: each replay then
  // waits for what they had put on the device when it began. If not, waits must be
  // enqueued before a recording, and before each replay of it.
  virtual bool records_waits() const { return false; }
  // Puts a copy from one tensor on the device to another on it.
  virtual absl::Status Copy(const tensorflow::Tensor& from, tensorflow::Tensor* to) = 0;

  // Return bytes of the device's memory: the most that this learner has had in use at a
  // time, and what all learners on the device may use together.
  virtual int64_t PeakBytes() = 0;
  virtual int64_t LimitBytes() = 0;
};

// A kind of accelerator. Thread-safe.
class AcceleratorBackend {
 public:
  virtual ~AcceleratorBackend() = default;

  // "GPU"
  virtual std::string type() const = 0;
  // Returns how many this process may use.
  virtual int num_devices() = 0;
  // Makes the device of learner `learner` on accelerator `ordinal`, without memory for
  // tensors so far. `host` is the session's CPU, whose resources the device uses.
  virtual absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tensorflow::SessionOptions& options, tensorflow::Device* host, int ordinal,
      int learner) = 0;
};

// Return and replace the backend of sessions to come; not owned, null if there is none.
AcceleratorBackend* Accelerators();
void RegisterAccelerators(AcceleratorBackend* backend);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_ACCELERATOR_H_
