// A device beside the CPU on which a learner computes: a GPU's stream group.
//
// The library for the device registers its backend when it is loaded; a session asks
// for it. What is in this file knows nothing of the device's runtime.
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

// What one learner has of an accelerator. Kernels put work on it and return; the work
// is done in the order in which it was put there. One thread at a time.
class AcceleratorDevice : public LearnerDevice {
 public:
  using LearnerDevice::LearnerDevice;

  // Work that has been recorded, to be done again and again; see Record().
  class Recording {
   public:
    virtual ~Recording() = default;
  };

  // For people: which device, and what of it the learner has for itself.
  virtual std::string Description() = 0;
  // As TensorFlow sees it. All learners' devices have the same name.
  virtual tensorflow::Device* device() = 0;
  // The accelerator's number, and the stream that the learner's tasks are put on as the
  // runtime's own handle: null where tasks are executed at once.
  virtual int ordinal() const = 0;
  virtual void* stream() = 0;

  // Between runs: copies that are over on return, after all work that was put on the
  // device before. Source and destination have the same type and size.
  virtual absl::Status CopyIn(const tensorflow::Tensor& host,
                              tensorflow::Tensor* on_device) = 0;
  virtual absl::Status CopyOut(const tensorflow::Tensor& on_device,
                               tensorflow::Tensor* host) = 0;

  // The three parts of a learning task. Upload(): the value of feed number `feed`, on
  // the device for the work that is put there until EndTask(); its copying overlaps
  // the work of the task before. Download(): `host` has the value once Finish() has
  // returned. EndTask() waits until the task before this one is done, so that a
  // learner is at most one task ahead of its device.
  virtual absl::Status Upload(int feed, const tensorflow::Tensor& host,
                              tensorflow::Tensor* on_device) = 0;
  virtual absl::Status Download(const tensorflow::Tensor& on_device,
                                tensorflow::Tensor* host) = 0;
  virtual absl::Status EndTask() = 0;
  // Waits until everything is done.
  virtual absl::Status Finish() = 0;

  // Records the work that `enqueue` puts on the device, which is not done meanwhile.
  // Tensors that it allocates keep their addresses for as long as the recording lives.
  // An error says which op cannot be recorded.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& enqueue) = 0;
  virtual absl::Status Replay(Recording* recording) = 0;
  // Puts a copy from one tensor on the device to another on it.
  virtual absl::Status Copy(const tensorflow::Tensor& from, tensorflow::Tensor* to) = 0;

  // Of the learner's memory on the device, in bytes: the most that has been in use at
  // a time, and what there is for all learners of the device together.
  virtual int64_t PeakBytes() = 0;
  virtual int64_t LimitBytes() = 0;
};

// A kind of accelerator. Thread-safe.
class AcceleratorBackend {
 public:
  virtual ~AcceleratorBackend() = default;

  // "GPU"
  virtual std::string type() const = 0;
  // How many this process may use.
  virtual int num_devices() = 0;
  // The device of learner `learner` on accelerator `ordinal`, which `learners` share.
  // `host` is the session's CPU, with whose resources the device works.
  virtual absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tensorflow::SessionOptions& options, tensorflow::Device* host, int ordinal,
      int learner, int learners) = 0;
};

// The backend, not owned, null if there is none. Registering another replaces it for
// sessions to come.
AcceleratorBackend* Accelerators();
void RegisterAccelerators(AcceleratorBackend* backend);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_ACCELERATOR_H_
