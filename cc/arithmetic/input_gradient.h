// The gradient of a dense layer's inputs. An update of the weights sums it up from the
// few rows that it is reading.
//
//   d(k, i) = Σ_j b(k, j)·w(i, j)         b = dy, d = dx = dy·wᵀ
//
// Each part sums in the order of j and then adds to d. A multiply-add is rounded once
// if the processor has the instruction. So the bits depend on the division of w. They
// do not depend on the order of its parts if no row lies in more than two. Float32.
// Thread-compatible; the workspace is not owned.
#ifndef TENSORBOW_CC_ARITHMETIC_INPUT_GRADIENT_H_
#define TENSORBOW_CC_ARITHMETIC_INPUT_GRADIENT_H_

#include <cstdint>

namespace tensorbow {

class InputGradient {
 public:
  struct Shape {
    int64_t rows;     // of w
    int64_t columns;  // of w and b
    int64_t batch;    // rows of b
  };

  // Returns the floats that the workspace must hold.
  static int64_t WorkspaceSize(const Shape& shape);

  // Copies b, batch × columns and row-major, into the workspace.
  InputGradient(const Shape& shape, const float* b, float* workspace);

  // d ← d + the contribution of w's elements [begin, end). `w` starts at element
  // `begin`. w is rows × columns, row-major; d is batch × rows. Changes the workspace.
  void Add(int64_t begin, int64_t end, const float* w, float* d) const;

 private:
  const Shape shape_;
  float* const padded_;      // some rows of w, 0 outside of the part
  float* const transposed_;  // of b, in groups of columns
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_INPUT_GRADIENT_H_
