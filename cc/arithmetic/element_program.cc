#include "cc/arithmetic/element_program.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <utility>

#include "cc/arithmetic/correction.h"
#include "cc/arithmetic/element_loops.h"

namespace tensorbow {
namespace {

struct OpNames {
  ElementOp op;
  int num_arguments;
  std::array<std::string_view, 2> names;  // in TensorFlow; NameOf() returns the first
};

constexpr OpNames kOps[] = {
    {ElementOp::kIdentity, 1, {"Identity"}},
    {ElementOp::kNeg, 1, {"Neg"}},
    {ElementOp::kAbs, 1, {"Abs"}},
    {ElementOp::kSign, 1, {"Sign"}},
    {ElementOp::kSquare, 1, {"Square"}},
    {ElementOp::kSqrt, 1, {"Sqrt"}},
    {ElementOp::kRsqrt, 1, {"Rsqrt"}},
    {ElementOp::kReciprocal, 1, {"Reciprocal", "Inv"}},
    {ElementOp::kExp, 1, {"Exp"}},
    {ElementOp::kLog, 1, {"Log"}},
    {ElementOp::kAdd, 2, {"AddV2", "Add"}},
    {ElementOp::kSub, 2, {"Sub"}},
    {ElementOp::kMul, 2, {"Mul"}},
    {ElementOp::kDiv, 2, {"RealDiv", "Div"}},
    {ElementOp::kDivNoNan, 2, {"DivNoNan"}},
    {ElementOp::kMaximum, 2, {"Maximum"}},
    {ElementOp::kMinimum, 2, {"Minimum"}},
    {ElementOp::kPow, 2, {"Pow"}},
    {ElementOp::kSquaredDifference, 2, {"SquaredDifference"}},
};

const OpNames& NamesOf(ElementOp op) {
  return *std::find_if(std::begin(kOps), std::end(kOps),
                       [op](const OpNames& names) { return names.op == op; });
}

}  // namespace

std::optional<ElementOp> ElementOpOf(std::string_view tensorflow_op) {
  for (const OpNames& names : kOps) {
    if (tensorflow_op == names.names[0] || tensorflow_op == names.names[1]) {
      return names.op;
    }
  }
  return std::nullopt;
}

std::string_view NameOf(ElementOp op) { return NamesOf(op).names[0]; }

int NumArguments(ElementOp op) { return NamesOf(op).num_arguments; }

bool HasSameBits(ElementOp op) {
  return op != ElementOp::kRsqrt && op != ElementOp::kExp && op != ElementOp::kLog &&
         op != ElementOp::kPow;
}

std::string ElementProgram::Check(int num_arrays, int num_scalars,
                                  const std::vector<ElementInstruction>& instructions,
                                  const std::vector<int>& results) {
  if (num_arrays < 1 || num_arrays > kMaxArrays) {
    return "a program has 1 to " + std::to_string(kMaxArrays) + " arrays, got " +
           std::to_string(num_arrays);
  }
  const int first = InstructionValue(num_arrays, num_scalars);
  const int end = first + static_cast<int>(instructions.size());
  for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
    const auto& [op, a, b] = instructions[i];
    const auto is_scalar = [&](int v) { return v > num_arrays && v < first; };
    if (std::min(a, b) < 0 || std::max(a, b) >= first + i) {
      return "instruction " + std::to_string(i) + " takes a value that is not there";
    }
    if (is_scalar(a) && is_scalar(b)) {
      return "instruction " + std::to_string(i) + " takes scalars only";
    }
  }
  const std::set<int> distinct(results.begin(), results.end());
  if (results.size() != static_cast<size_t>(num_arrays) ||
      distinct.size() != results.size() || *distinct.begin() < first ||
      *distinct.rbegin() >= end) {
    return "each array becomes what an instruction of its own gives";
  }
  return "";
}

ElementProgram::ElementProgram(int num_arrays, int num_scalars,
                               std::vector<ElementInstruction> instructions,
                               std::vector<int> results)
    : num_arrays_(num_arrays),
      num_scalars_(num_scalars),
      instructions_(std::move(instructions)),
      results_(std::move(results)) {
  AssignPlaces();
}

void ElementProgram::AssignPlaces() {
  const int first = InstructionValue(num_arrays_, num_scalars_);
  const int count = static_cast<int>(instructions_.size());
  std::vector<int> last_use(first + count, -1);
  for (int i = 0; i < count; ++i) {
    last_use[instructions_[i].a] = last_use[instructions_[i].b] = i;
  }
  places_.resize(count);
  std::vector<bool> kept(count, false);  // needed until the end
  for (int array = 0; array < num_arrays_; ++array) {
    const int i = results_[array] - first;
    kept[i] = true;
    if (last_use[array] <= i) places_[i].array = array;
  }
  std::vector<int> free;
  for (int i = 0; i < count; ++i) {
    std::set<int> arguments{instructions_[i].a, instructions_[i].b};
    for (const int value : arguments) {
      const int j = value - first;
      if (j < 0 || last_use[value] != i || kept[j]) continue;
      free.push_back(places_[j].buffer);
    }
    if (places_[i].array >= 0) continue;
    if (free.empty()) free.push_back(num_buffers_++);
    places_[i].buffer = free.back();
    free.pop_back();
  }
}

template <typename T>
void ElementProgram::Run(int64_t n, T* const* arrays, const T* operand,
                         const T* scalars, Pull<T> pull) const {
  constexpr int64_t kBlock = 1024;  // all buffers fit into the first-level cache
  using A = Accumulator<T>;
  const int operand_value = OperandValue(num_arrays_);
  const int first_scalar = ScalarValue(num_arrays_);
  const int first = InstructionValue(num_arrays_, num_scalars_);
  // Uninitialised is safe: every element is written before it is read.
  const std::unique_ptr<T[]> buffers(new T[(num_buffers_ + 1) * kBlock]);
  T* const before = buffers.get() + num_buffers_ * kBlock;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    const auto result = [&](int i) {
      const Place& place = places_[i];
      return place.array >= 0 ? arrays[place.array] + begin
                              : buffers.get() + place.buffer * kBlock;
    };
    const auto value = [&](int v) -> const T* {
      if (v < operand_value) return arrays[v] + begin;
      if (v == operand_value) return operand + begin;
      return v < first ? scalars + (v - first_scalar) : result(v - first);
    };
    const auto is_scalar = [&](int v) { return v >= first_scalar && v < first; };
    if (pull.z != nullptr) std::copy_n(arrays[0] + begin, size, before);
    for (int i = 0; i < static_cast<int>(instructions_.size()); ++i) {
      const auto& [op, a, b] = instructions_[i];
      const ElementArguments shape = is_scalar(a)   ? ElementArguments::kScalarArray
                                     : is_scalar(b) ? ElementArguments::kArrayScalar
                                                    : ElementArguments::kArrays;
      ComputeElements(op, shape, value(a), value(b), size, result(i));
    }
    for (int array = 0; array < num_arrays_; ++array) {
      const T* const from = result(results_[array] - first);
      T* const to = arrays[array] + begin;
      if (from != to) std::copy_n(from, size, to);
    }
    if (pull.z == nullptr) continue;
    for (int64_t i = 0; i < size; ++i) {
      T& w = arrays[0][begin + i];
      w = static_cast<T>(Corrected(static_cast<A>(w), static_cast<A>(before[i]),
                                   pull.z[begin + i], pull.alpha));
    }
  }
}

#define TENSORBOW_RUN(T)                                                       \
  template void ElementProgram::Run<T>(int64_t, T* const*, const T*, const T*, \
                                       Pull<T>) const;
TENSORBOW_RUN(float)
TENSORBOW_RUN(double)
TENSORBOW_RUN(Half)
TENSORBOW_RUN(Bfloat16)

}  // namespace tensorbow
