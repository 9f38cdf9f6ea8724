// A mutex, a scoped lock and a condition variable whose use clang checks
// (-Wthread-safety, tools/thread_safety.sh). They wrap the standard library's, which
// carry no annotations; other compilers see no annotations either.
//
// Wait for a condition in a loop around Condition::Wait(): clang analyses a predicate
// as a function of its own, in which the mutex does not count as held. Thread-safe. A
// lock does not own its mutex, which outlives it.
#ifndef TENSORBOW_CC_SUPPORT_MUTEX_H_
#define TENSORBOW_CC_SUPPORT_MUTEX_H_

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TENSORBOW_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define TENSORBOW_THREAD_ANNOTATION(annotation)
#endif

// A member that is accessed only with the mutex held.
#define TENSORBOW_GUARDED_BY(mu) TENSORBOW_THREAD_ANNOTATION(guarded_by(mu))
// A function whose caller holds the mutex.
#define TENSORBOW_REQUIRES(mu) TENSORBOW_THREAD_ANNOTATION(requires_capability(mu))
// A function that locks the mutex, so its caller must not hold it.
#define TENSORBOW_EXCLUDES(mu) TENSORBOW_THREAD_ANNOTATION(locks_excluded(mu))
// A mutex that is locked after the other one if both are held.
#define TENSORBOW_ACQUIRED_AFTER(mu) TENSORBOW_THREAD_ANNOTATION(acquired_after(mu))
// A function whose locking cannot be expressed; a comment there says why.
#define TENSORBOW_NO_THREAD_SAFETY_ANALYSIS \
  TENSORBOW_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace tensorbow {

class TENSORBOW_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() TENSORBOW_THREAD_ANNOTATION(acquire_capability()) { mu_.lock(); }
  void Unlock() TENSORBOW_THREAD_ANNOTATION(release_capability()) { mu_.unlock(); }

 private:
  friend class Condition;
  std::mutex mu_;
};

// Holds a mutex as long as it lives.
class TENSORBOW_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mu) TENSORBOW_THREAD_ANNOTATION(acquire_capability(mu))
      : mu_(mu) {
    mu_->Lock();
  }
  ~MutexLock() TENSORBOW_THREAD_ANNOTATION(release_capability()) { mu_->Unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// A condition variable for threads that hold a mutex.
class Condition {
 public:
  // Unlocks the mutex, waits for a notification, and locks it again. May return without
  // a notification.
  //
  // Does not call changed_.wait(), a symbol that libstdc++ has only since GCC 12: the
  // wheel also runs on systems with an older one.
  void Wait(Mutex* mu) TENSORBOW_REQUIRES(mu) {
    pthread_cond_wait(changed_.native_handle(), mu->mu_.native_handle());
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_MUTEX_H_
