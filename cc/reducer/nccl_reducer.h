// Reduction between GPUs by NCCL: one all-reduce, enqueued without waiting.
#ifndef TENSORBOW_CC_REDUCER_NCCL_REDUCER_H_
#define TENSORBOW_CC_REDUCER_NCCL_REDUCER_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/reducer/reducer.h"

namespace tensorbow {

// Makes a reducer; if it returns null, `*why` holds the reason: NCCL cannot be loaded,
// or cannot connect these GPUs. Communicators are made once per set of GPUs and live as
// long as the process.
std::unique_ptr<Reducer> NewNcclReducer(const std::vector<int>& ordinals,
                                        std::string* why);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REDUCER_NCCL_REDUCER_H_
