// Who works on the replicated variables of a session: one run after the other.
//
// A learning run that waits for data may be waiting for what a central run enables (an
// actor that asks the model and then enqueues). Such a central run goes on beside it,
// without a turn. Thread-safe.
#ifndef TENSORBOW_CC_TRAINER_CENTRAL_GATE_H_
#define TENSORBOW_CC_TRAINER_CENTRAL_GATE_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tensorbow {

class Turns {
 public:
  // Waits for the turn. Returns whether central runs go on beside holders that wait.
  bool Take() ABSL_LOCKS_EXCLUDED(mu_);
  // The holder, while it has the turn, may from now on wait for another run of the
  // session. What runs beside it reads has been made ready.
  void MayWait() ABSL_LOCKS_EXCLUDED(mu_);
  // For a central run: false if the holder may be waiting for the caller; at once, or
  // after some patience with it.
  bool TakeCentral(bool at_once) ABSL_LOCKS_EXCLUDED(mu_);
  void End() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
  bool waits_ ABSL_GUARDED_BY(mu_) = false;
  // A holder has kept a central run waiting for long, so that it may have been waiting
  // for it: from now on none waits for such a holder.
  bool beside_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_CENTRAL_GATE_H_
