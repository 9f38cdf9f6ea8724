// An elementwise computation on arrays in one pass over memory. It replaces the ops of
// an update that a program has written itself.
//
// Values are numbered: first the arrays (a variable and its slots) before the update,
// then the operand (one more array, only read). The scalars and the results of the
// instructions follow. Each operation is TensorFlow's op of that name.
#ifndef TENSORBOW_CC_ARITHMETIC_ELEMENT_PROGRAM_H_
#define TENSORBOW_CC_ARITHMETIC_ELEMENT_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cc/arithmetic/update_rules.h"

namespace tensorbow {

enum class ElementOp {
  kIdentity,
  kNeg,
  kAbs,
  kSign,
  kSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kLog,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kDivNoNan,
  kMaximum,
  kMinimum,
  kPow,
  kSquaredDifference,
};

// Returns the operation of a TensorFlow op, or nothing.
std::optional<ElementOp> ElementOpOf(std::string_view tensorflow_op);
// Returns the first name of a TensorFlow op with this operation.
std::string_view NameOf(ElementOp op);
int NumArguments(ElementOp op);
// Returns whether results have the bits of TensorFlow's: they are rounded once.
bool HasSameBits(ElementOp op);

struct ElementInstruction {
  ElementOp op;
  int a;  // a value
  int b;  // a value; equal to `a` if the operation has one argument
};

class ElementProgram {
 public:
  static constexpr int kMaxArrays = 5;

  // The numbers of the operand, the first scalar and the first instruction.
  static int OperandValue(int num_arrays) { return num_arrays; }
  static int ScalarValue(int num_arrays) { return num_arrays + 1; }
  static int InstructionValue(int num_arrays, int num_scalars) {
    return num_arrays + 1 + num_scalars;
  }

  // Returns the reason why there is no such program, or an empty text. `results`: for
  // each array, the instruction (as a value) with its new content; all different. An
  // instruction has at least one argument that is no scalar, and uses only earlier
  // values.
  static std::string Check(int num_arrays, int num_scalars,
                           const std::vector<ElementInstruction>& instructions,
                           const std::vector<int>& results);

  ElementProgram() = default;
  // REQUIRES: Check() returns an empty text.
  ElementProgram(int num_arrays, int num_scalars,
                 std::vector<ElementInstruction> instructions,
                 std::vector<int> results);

  int num_arrays() const { return num_arrays_; }
  int num_scalars() const { return num_scalars_; }

  // Computes `n` elements of each array. `arrays`: the first elements; arrays do not
  // overlap. The first array is corrected towards the central model. Thread-safe.
  template <typename T>
  void Run(int64_t n, T* const* arrays, const T* operand, const T* scalars,
           Pull<T> pull) const;

 private:
  // The destination of an instruction: a buffer or, if its number is not negative, an
  // array whose old value is not read any more.
  struct Place {
    int array = -1;
    int buffer = 0;
  };

  void AssignPlaces();

  int num_arrays_ = 0;
  int num_scalars_ = 0;
  std::vector<ElementInstruction> instructions_;
  std::vector<int> results_;
  std::vector<Place> places_;
  int num_buffers_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_ELEMENT_PROGRAM_H_
