// Tells whether the learners that share a device have memory enough, and what each may
// use. Pure functions.
#ifndef TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_
#define TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tensorbow {

// Returns how many learners fit into `available` bytes if each needs `peak` bytes.
int64_t LearnersThatFit(int64_t peak, int64_t available);

// Returns ResourceExhausted, with the numbers and what to do, unless `learners` fit.
absl::Status CheckLearnersFit(int64_t peak, int64_t available, int64_t learners);

// Names the allocator of `learner`, one of `learners` with equal shares of `available`
// bytes. Errors about memory quote the name, so it says what the limit is and what to
// do about it.
std::string AllocatorName(int learner, int64_t learners, int64_t available);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_MEMORY_LEARNERS_THAT_FIT_H_
