// Checks whether the memory of a device suffices for the learners that share it, and
// divides it. Pure functions.
#ifndef TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_
#define TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tensorbow {

// Returns how many learners fit into `available` bytes if each needs `peak` bytes.
int64_t LearnersThatFit(int64_t peak, int64_t available);

// Returns ResourceExhausted, with the numbers and the remedy, unless `learners` fit.
absl::Status CheckLearnersFit(int64_t peak, int64_t available, int64_t learners);

// Names the allocator of `learner`, one of `learners` with equal shares of `available`
// bytes. Errors about memory quote the name, so it contains the limit and the remedy.
std::string AllocatorName(int learner, int64_t learners, int64_t available);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_
