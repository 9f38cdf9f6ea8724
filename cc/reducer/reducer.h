// A sum over the GPUs of one host: all of them receive the same bits. One subclass for
// each way to compute it. Thread-compatible.
#ifndef TENSORBOW_CC_REDUCER_REDUCER_H_
#define TENSORBOW_CC_REDUCER_REDUCER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/support/element.h"

namespace tensorbow {

class Reducer {
 public:
  virtual ~Reducer() = default;

  // buffers[g] ← Σ buffers for all GPUs g, n elements of `type` each, in the order of
  // streams[g]; GPUs are in the order given at construction. Returns an error, or an
  // empty text. REQUIRES: `type` is an accumulation type.
  virtual std::string Sum(ElementType type, int64_t n,
                          const std::vector<void*>& buffers,
                          const std::vector<void*>& streams) = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REDUCER_REDUCER_H_
