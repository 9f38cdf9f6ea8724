// Checks the ops of a task that is being recorded: a recording repeats an op's work on
// the device, but not its work on the host.
//
// A device asks before and after each kernel. One thread at a time.
#ifndef TENSORBOW_CC_DEVICE_RECORDED_OPS_H_
#define TENSORBOW_CC_DEVICE_RECORDED_OPS_H_

#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {

class RecordedOps {
 public:
  void Begin();
  // Ends the recording. Returns an error that names the first op that cannot be part of
  // it; empty if all can.
  std::string End();
  bool recording() const { return recording_; }

  // Returns whether the kernel must not be executed: an asynchronous kernel continues
  // in a callback when the device is done, and while recording the device does nothing.
  // If so the op has failed and `done` has been called.
  bool Refuse(const tensorflow::AsyncOpKernel& kernel,
              tensorflow::OpKernelContext* context,
              const tensorflow::AsyncOpKernel::DoneCallback& done);
  // Fails the op after its kernel: its work on the device cannot be recorded.
  void Fail(const tensorflow::OpKernel& kernel, tensorflow::OpKernelContext* context);

 private:
  bool recording_ = false;
  std::string obstacle_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_RECORDED_OPS_H_
