// The gradient of a dense layer's inputs, summed up from a few rows of its weights at a
// time while an update has them at hand.
//
//   d(k, i) = Σ_j b(k, j)·w(i, j)         b = dy, d = dx = dy·wᵀ
//
// A part's sums are taken in the order of j, with one rounding for each multiply-add
// where the processor has such an instruction, and then added to d: the bits depend on
// how w is divided, but not on the order of its parts as long as no row lies in more
// than two. Float32. Thread-compatible; the workspace is not owned.
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

  // How many floats the workspace must hold.
  static int64_t WorkspaceSize(const Shape& shape);

  // Copies b, batch × columns and row-major, into the workspace.
  InputGradient(const Shape& shape, const float* b, float* workspace);

  // d ← d + what w's elements [begin, end) contribute; w is rows × columns, row-major,
  // and given from element `begin` on, d is batch × rows. Changes the workspace.
  void Add(int64_t begin, int64_t end, const float* w, float* d) const;

 private:
  const Shape shape_;
  float* const padded_;      // some rows of w: what is outside the part is 0
  float* const transposed_;  // of b, some columns after the others
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_INPUT_GRADIENT_H_
