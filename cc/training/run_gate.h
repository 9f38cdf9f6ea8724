// Admits one run at a time to the replicated variables of a session.
//
// A learning run that waits for data may wait for the result of a central run, such as
// an actor that asks the model and then enqueues. Such a central run bypasses the gate.
// Thread-safe.
#ifndef TENSORBOW_CC_TRAINING_RUN_GATE_H_
#define TENSORBOW_CC_TRAINING_RUN_GATE_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tensorbow {

class RunGate {
 public:
  // Waits until no other run is inside. Returns whether central runs bypass waiting
  // holders.
  bool Enter() ABSL_LOCKS_EXCLUDED(mu_);
  // Tells central runs that the holder may wait for another run of the session from now
  // on. REQUIRES: the values that they read are published.
  void MayBlock() ABSL_LOCKS_EXCLUDED(mu_);
  // Enters for a central run. Returns false if it has to bypass the gate: the holder
  // may block and `immediate` is set, or the holder has blocked it for too long.
  bool EnterCentral(bool immediate) ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
  bool may_block_ ABSL_GUARDED_BY(mu_) = false;
  // A central run has waited too long for a holder that may block. Since then, no
  // central run waits for such a holder.
  bool central_bypasses_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_RUN_GATE_H_
