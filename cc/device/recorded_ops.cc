#include "cc/device/recorded_ops.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

std::string Obstacle(const tf::OpKernel& kernel, const char* why) {
  return absl::StrCat("'", kernel.name(), "' (", kernel.type_string(), ") ", why);
}

}  // namespace

void RecordedOps::Begin() {
  recording_ = true;
  obstacle_.clear();
}

std::string RecordedOps::End() {
  recording_ = false;
  return std::exchange(obstacle_, "");
}

bool RecordedOps::Refuse(const tf::AsyncOpKernel& kernel, tf::OpKernelContext* context,
                         const tf::AsyncOpKernel::DoneCallback& done) {
  if (!recording_) return false;
  const std::string why =
      Obstacle(kernel, "goes on on the host when the device is done");
  if (obstacle_.empty()) obstacle_ = why;
  context->SetStatus(absl::UnimplementedError(why));
  done();
  return true;
}

void RecordedOps::Fail(const tf::OpKernel& kernel, tf::OpKernelContext* context) {
  const std::string why =
      Obstacle(kernel, "waits for the device or does what cannot be recorded");
  if (obstacle_.empty()) obstacle_ = why;
  context->SetStatus(absl::UnimplementedError(why));
}

}  // namespace tensorbow
