// The variables that runs of the central session write, and those that data pipelines
// read. Thread-safe.
#ifndef TENSORBOW_CC_TRAINING_WRITE_LOG_H_
#define TENSORBOW_CC_TRAINING_WRITE_LOG_H_

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cc/analysis/run_analysis.h"

namespace tensorbow {

class WriteLog {
 public:
  // Records the variables that the run has written.
  void RecordWrites(const RunAnalysis& analysis) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, use] : analysis.variables) {
      if (use.written) written_.insert(name);
    }
  }
  // Records the variables that the run's data pipelines read at any time.
  void RecordCaptured(const RunAnalysis& analysis) ABSL_LOCKS_EXCLUDED(mu_) {
    for (const auto& [name, use] : analysis.variables) {
      if (!use.captured) continue;
      absl::MutexLock lock(&mu_);
      captured_.insert(name);
    }
  }

  // Returns the variables written since the last call.
  std::set<std::string> TakeWritten() ABSL_LOCKS_EXCLUDED(mu_) {
    std::set<std::string> written;
    absl::MutexLock lock(&mu_);
    written.swap(written_);
    return written;
  }
  std::set<std::string> captured() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return captured_;
  }

 private:
  mutable absl::Mutex mu_;
  std::set<std::string> written_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> captured_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_WRITE_LOG_H_
