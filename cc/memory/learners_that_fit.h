// Whether the learners that share a device have memory enough. Pure functions.
#ifndef TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_
#define TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_

#include <cstdint>

#include "absl/status/status.h"

namespace tensorbow {

// How many learners fit into `available` bytes if each needs `peak` bytes.
int64_t LearnersThatFit(int64_t peak, int64_t available);

// ResourceExhausted, with the numbers and the way out, unless `learners` fit.
absl::Status CheckLearnersFit(int64_t peak, int64_t available, int64_t learners);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_
