// The variables that all learners of a session share as one copy.
//
// A variable is shared while every compiled program can share it
// (cc/passes/task/share_variables.h). Thread-safe.
#ifndef TENSORBOW_CC_PROGRAM_SHARING_H_
#define TENSORBOW_CC_PROGRAM_SHARING_H_

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cc/passes/task/share_variables.h"

namespace tensorbow {

class Sharing {
 public:
  using Names = std::set<std::string>;

  // Adds a program with the variables that it can share. Returns those that it shares:
  // whole groups.
  Names Agree(const SharableVariables& program) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the variables that Agree() has stopped sharing since the last call.
  // Programs that share them are to be compiled again.
  Names TakeStopped() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  Names shared_ ABSL_GUARDED_BY(mu_);
  Names unshared_ ABSL_GUARDED_BY(mu_);  // for good
  Names stopped_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_SHARING_H_
