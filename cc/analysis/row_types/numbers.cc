// Results that follow from known numbers of elements: shapes, and values computed from
// them.
#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/number_op.h"
#include "cc/analysis/row_types/rule.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

RowType TypeOfNumbers(SizeTable& sizes, Sizes dims, Sizes numbers) {
  RowType type = Make(RowKind::kSizes, std::move(dims));
  bool all_known = true, without_rows = true;
  std::vector<SizeTable::Powers> rows;  // without repetitions
  for (Size number : numbers) {
    all_known &= number.known();
    for (const SizeTable::Powers& powers : sizes.RowPowers(number)) {
      without_rows &= powers.empty();
      if (std::find(rows.begin(), rows.end(), powers) == rows.end()) {
        rows.push_back(powers);
      }
    }
  }
  const bool zero = std::any_of(numbers.begin(), numbers.end(),
                                [](Size number) { return number == kZeroSize; });
  type.numbers = std::move(numbers);
  if (!all_known) return type;
  if (without_rows) {
    type.kind = RowKind::kSame;
    return type;
  }
  if (rows.size() != 1 || zero) return type;
  const SizeTable::Powers& powers = rows[0];
  const SizeTable::Symbol fed = sizes.Info(kFedRows).symbol;
  int power = 0;
  bool of_fed = true;
  for (const auto& [symbol, p] : powers) {
    of_fed &= symbol == fed;
    power += p;
  }
  if (of_fed) {
    type.kind = RowKind::kSame;
    type.exponent = -power;
  } else if (powers.size() == 1 && power == 1) {
    type.kind = RowKind::kSum;
  }
  return type;
}

namespace {

constexpr int64_t kMostElements = 4096;  // in a constant to be examined

// Returns the sizes of an input; nullopt if its rank is not known.
std::optional<Sizes> DimsOf(OpView& op, int i, const RowType& type) {
  if (type.dims.has_value()) return type.dims;
  const tf::PartialTensorShape& shape = op.InputShape(i);
  if (shape.unknown_rank() || type.is(RowKind::kRows) || type.unknown()) {
    return std::nullopt;
  }
  Sizes dims;
  for (int64_t size : shape.dim_sizes()) {
    dims.push_back(size >= 0 ? op.sizes().Constant(size) : kUnknownSize);
  }
  return dims;
}

Types ShapeOf(OpView& op, const Types& in) {
  SizeTable& sizes = op.sizes();
  Types types;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::optional<Sizes> dims = DimsOf(op, static_cast<int>(i), in[i]);
    if (!dims.has_value()) {
      types.push_back(in[i].unknown() ? in[i] : Make(RowKind::kSizes));
      continue;
    }
    const int64_t rank = static_cast<int64_t>(dims->size());
    if (op.op() == "Size") {
      types.push_back(TypeOfNumbers(sizes, {}, {sizes.Times(*dims)}));
    } else if (op.op() == "Rank") {
      types.push_back(TypeOfNumbers(sizes, {}, {sizes.Constant(rank)}));
    } else {
      types.push_back(TypeOfNumbers(sizes, {sizes.Constant(rank)}, *dims));
    }
    if (!in[i].of_all_rows || !in[i].is(RowKind::kSame)) continue;
    for (Size size : *dims) {
      types.back().of_all_rows |= !sizes.Number(size).has_value();
    }
  }
  return types;
}

template <typename T>
bool AreEqual(const tf::Tensor& value, int64_t period) {
  const auto flat = value.unaligned_flat<T>();
  for (int64_t i = period; i < flat.size(); ++i) {
    if (!(flat(i) == flat(i - period))) return false;
  }
  return true;
}

// Returns whether all elements, or all along the first axis, are equal.
Uniform UniformOf(const tf::Tensor& value) {
  if (value.dims() == 0 || value.NumElements() < 2) return Uniform::kNo;
  const int64_t row = value.NumElements() / std::max<int64_t>(1, value.dim_size(0));
  const auto equal = [&](int64_t period) {
    switch (value.dtype()) {
      case tf::DT_FLOAT:
        return AreEqual<float>(value, period);
      case tf::DT_DOUBLE:
        return AreEqual<double>(value, period);
      case tf::DT_INT32:
        return AreEqual<int32_t>(value, period);
      case tf::DT_INT64:
        return AreEqual<int64_t>(value, period);
      case tf::DT_BOOL:
        return AreEqual<bool>(value, period);
      default:
        return false;
    }
  };
  if (equal(1)) return Uniform::kEverywhere;
  return equal(row) ? Uniform::kAlongRows : Uniform::kNo;
}

std::optional<Sizes> WholeNumbersOf(SizeTable& sizes, const tf::Tensor& value) {
  if (value.dims() > 2 || value.NumElements() > kMostNumbers) return std::nullopt;
  Sizes numbers;
  for (int64_t i = 0; i < value.NumElements(); ++i) {
    int64_t number = 0;
    switch (value.dtype()) {
      case tf::DT_INT32:
        number = value.unaligned_flat<int32_t>()(i);
        break;
      case tf::DT_INT64:
        number = value.unaligned_flat<int64_t>()(i);
        break;
      case tf::DT_BOOL:
        number = value.unaligned_flat<bool>()(i) ? 1 : 0;
        break;
      case tf::DT_FLOAT:
      case tf::DT_DOUBLE: {
        if (value.dims() > 0) return std::nullopt;
        const double real = value.dtype() == tf::DT_FLOAT
                                ? value.unaligned_flat<float>()(i)
                                : value.unaligned_flat<double>()(i);
        number = static_cast<int64_t>(real);
        if (!(std::abs(real) < 1e9) || static_cast<double>(number) != real) {
          return std::nullopt;
        }
        break;
      }
      default:
        return std::nullopt;
    }
    numbers.push_back(sizes.Constant(number));
  }
  return numbers;
}

bool IsZero(const tf::Tensor& value) {
  if (value.NumElements() == 0) return false;
  if (value.dtype() == tf::DT_FLOAT) {
    return value.unaligned_flat<float>()(0) == 0 &&
           (value.NumElements() == 1 || UniformOf(value) == Uniform::kEverywhere);
  }
  if (value.dtype() == tf::DT_DOUBLE) {
    return value.unaligned_flat<double>()(0) == 0 &&
           (value.NumElements() == 1 || UniformOf(value) == Uniform::kEverywhere);
  }
  return false;
}

Types Constant(OpView& op) {
  const tf::TensorProto* proto = nullptr;
  if (!tf::TryGetNodeAttr(op.node().attrs(), "value", &proto)) {
    return {Make(RowKind::kSame)};
  }
  Sizes dims;
  int64_t count = 1;
  for (const auto& dim : proto->tensor_shape().dim()) {
    dims.push_back(op.sizes().Constant(dim.size()));
    count *= dim.size();
  }
  RowType type = Make(RowKind::kSame, dims);
  tf::Tensor value;
  const bool compressed = proto->tensor_content().empty();
  if ((count > kMostElements && !compressed) || !value.FromProto(*proto)) return {type};
  type.uniform = UniformOf(value);
  if (IsZero(value)) {
    type.kind = RowKind::kZero;
    type.uniform = Uniform::kEverywhere;
    return {type};
  }
  type.numbers = WholeNumbersOf(op.sizes(), value);
  return {type};
}

}  // namespace

std::optional<Types> TypeNumbers(OpView& op, const Types& in) {
  if (op.is({"Shape", "ShapeN", "Size", "Rank", "VariableShape"})) {
    return ShapeOf(op, in);
  }
  if (op.op() == "Const") return Constant(op);
  if (in.empty()) return std::nullopt;
  std::vector<Numbers> numbers;
  for (const RowType& type : in) {
    std::optional<Numbers> found = NumbersOf(op.sizes(), type);
    if (!found.has_value()) return std::nullopt;
    numbers.push_back(std::move(*found));
  }
  return EvaluateNumbers(op, std::move(numbers));
}

}  // namespace tensorbow
