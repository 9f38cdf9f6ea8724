// The interface of a learner's device for the kernels of TensorBow's own ops, besides
// TensorFlow's: dynamic_cast the kernel's device to this. If the cast fails, the device
// is not a learner's.
#ifndef TENSORBOW_CC_DEVICE_LEARNER_DEVICE_H_
#define TENSORBOW_CC_DEVICE_LEARNER_DEVICE_H_

#include "cc/device/held_mutexes.h"
#include "cc/support/random_streams.h"

namespace tensorbow {

class Synchroniser;

class LearnerDevice {
 public:
  explicit LearnerDevice(int learner) : learner_(learner) {}
  virtual ~LearnerDevice() = default;

  int learner() const { return learner_; }

  // Not owned; set once, before any kernel executes.
  Synchroniser* synchroniser() const { return synchroniser_; }
  void set_synchroniser(Synchroniser* synchroniser) { synchroniser_ = synchroniser; }

  // Returns the streams of the learner's random ops.
  RandomStreams& random_streams() { return random_streams_; }

  // Returns the locks of variables that the learner's task updates for all learners.
  HeldMutexes& held_mutexes() { return held_mutexes_; }

 private:
  const int learner_;
  Synchroniser* synchroniser_ = nullptr;
  RandomStreams random_streams_;
  HeldMutexes held_mutexes_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_LEARNER_DEVICE_H_
