// The correction of a replica towards the central model, one element, for host and
// device:
//
//   c = α (w − z)                       w before the update
//   w ← (w + u) − c                     w + u: the optimiser's result
//
// All arguments have the type of the replica's arithmetic; callers convert 16-bit
// elements. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_CORRECTION_H_
#define TENSORBOW_CC_ARITHMETIC_CORRECTION_H_

#include "cc/support/host_device.h"

namespace tensorbow {

// c = α (w − z)
template <typename A>
TENSORBOW_HOST_DEVICE A CorrectionOf(A w, A z, A alpha) {
  return alpha * (w - z);
}

// (w + u) − α (w − z), given `updated` = w + u
template <typename A>
TENSORBOW_HOST_DEVICE A Corrected(A updated, A w, A z, A alpha) {
  return updated - CorrectionOf(w, z, alpha);
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_CORRECTION_H_
