#include "cc/session/central_callable.h"

#include <utility>

#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

CentralCallable::CentralCallable(tf::Session* central, tf::CallableOptions options)
    : central_(central), options_(std::move(options)) {}

CentralCallable::~CentralCallable() {
  absl::MutexLock lock(&mu_);
  if (handle_.has_value()) central_->ReleaseCallable(*handle_).IgnoreError();
}

absl::StatusOr<tf::Session::CallableHandle> CentralCallable::Handle() {
  absl::MutexLock lock(&mu_);
  if (!handle_.has_value()) {
    tf::Session::CallableHandle made = 0;
    TF_RETURN_IF_ERROR(central_->MakeCallable(options_, &made));
    handle_ = made;
  }
  return *handle_;
}

}  // namespace tensorbow
