#include "cc/session/central_callable.h"

#include <utility>

namespace tensorbow {

namespace tf = ::tensorflow;

CentralCallable::CentralCallable(tf::Session* central, tf::CallableOptions options)
    : central_(central), options_(std::move(options)) {}

CentralCallable::~CentralCallable() {
  absl::MutexLock lock(&mu_);
  if (made_ && status_.ok()) central_->ReleaseCallable(handle_).IgnoreError();
}

absl::StatusOr<tf::Session::CallableHandle> CentralCallable::Handle() {
  absl::MutexLock lock(&mu_);
  if (!made_) {
    status_ = central_->MakeCallable(options_, &handle_);
    made_ = true;
  }
  if (!status_.ok()) return status_;
  return handle_;
}

}  // namespace tensorbow
