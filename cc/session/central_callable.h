// A callable of the stock session, for runs that the central session executes.
#ifndef TENSORBOW_CC_SESSION_CENTRAL_CALLABLE_H_
#define TENSORBOW_CC_SESSION_CENTRAL_CALLABLE_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

// Made on first use: the stock session builds and optimises a graph for it, which a
// learning run may never need. Thread-safe.
class CentralCallable {
 public:
  // `central` outlives this.
  CentralCallable(tensorflow::Session* central, tensorflow::CallableOptions options);
  ~CentralCallable();
  CentralCallable(const CentralCallable&) = delete;
  CentralCallable& operator=(const CentralCallable&) = delete;

  // Returns the stock session's handle, which the first call makes.
  absl::StatusOr<tensorflow::Session::CallableHandle> Handle() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  tensorflow::Session* const central_;
  const tensorflow::CallableOptions options_;
  absl::Mutex mu_;
  std::optional<tensorflow::Session::CallableHandle> handle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_CENTRAL_CALLABLE_H_
