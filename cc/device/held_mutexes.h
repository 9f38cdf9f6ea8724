// The mutexes of variables that one learner holds for all learners of an iteration. It
// holds them from the exchange (TensorBowBeginUpdates) to the end of each variable's
// update. So a thread of eager code reads all of an update or nothing of it.
//
// Thread-safe. The unlocking thread need not be the one that locked.
#ifndef TENSORBOW_CC_DEVICE_HELD_MUTEXES_H_
#define TENSORBOW_CC_DEVICE_HELD_MUTEXES_H_

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorbow {

class HeldMutexes {
 public:
  // Locks different mutexes, in the order of their addresses as TensorFlow's ops do.
  void Lock(std::vector<tensorflow::mutex*> mutexes) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::sort(mutexes.begin(), mutexes.end(), std::less<>());
    for (tensorflow::mutex* mu : mutexes) mu->lock();
    const absl::MutexLock lock(&mu_);
    held_.insert(held_.end(), mutexes.begin(), mutexes.end());
  }

  // Unlocks one of them, if it is held.
  void Unlock(tensorflow::mutex* mu) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const absl::MutexLock lock(&mu_);
    const auto held = std::find(held_.begin(), held_.end(), mu);
    if (held == held_.end()) return;
    held_.erase(held);
    mu->unlock();
  }

  // Unlocks the mutexes that a failed task still holds.
  void UnlockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const absl::MutexLock lock(&mu_);
    for (tensorflow::mutex* mu : held_) mu->unlock();
    held_.clear();
  }

 private:
  absl::Mutex mu_;
  std::vector<tensorflow::mutex*> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_HELD_MUTEXES_H_
