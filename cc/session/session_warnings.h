// The warnings of a session: each text once. Thread-safe.
#ifndef TENSORBOW_CC_SESSION_SESSION_WARNINGS_H_
#define TENSORBOW_CC_SESSION_SESSION_WARNINGS_H_

#include <atomic>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace tensorbow {

class SessionWarnings {
 public:
  // `collects`: keeps warnings for Take(); else logs them.
  explicit SessionWarnings(bool collects) : collects_(collects) {}

  void Warn(const std::string& text) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!known_.insert(text).second) return;
    if (!collects_) {
      LOG(WARNING) << text;
      return;
    }
    new_.push_back(text);
    any_.store(true, std::memory_order_relaxed);
  }
  void WarnOfOneLearner(const std::string& why) {
    Warn(absl::StrCat("A learning run is executed by one learner only: ", why));
  }

  // Returns the warnings since the last call.
  std::vector<std::string> Take() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(new_, {});
  }
  bool any() const { return any_.load(std::memory_order_relaxed); }

 private:
  const bool collects_;
  absl::Mutex mu_;
  std::vector<std::string> new_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> known_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> any_{false};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_SESSION_WARNINGS_H_
