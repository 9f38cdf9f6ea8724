#include "cc/analysis/row_types/number_arrays.h"

#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

Numbers Scalar(Size value) { return {{}, {value}}; }
Numbers Vector(Sizes values) {
  return {{static_cast<int64_t>(values.size())}, std::move(values)};
}

std::optional<Numbers> NumbersOf(const SizeTable& sizes, const RowType& type) {
  if (!type.numbers.has_value() || !type.dims.has_value()) return std::nullopt;
  if (!type.is(RowKind::kSame) && !type.is(RowKind::kSizes) &&
      !type.is(RowKind::kSum)) {
    return std::nullopt;
  }
  Numbers numbers;
  int64_t count = 1;
  for (Size dim : *type.dims) {
    const std::optional<int64_t> size = sizes.Number(dim);
    if (!size.has_value()) return std::nullopt;
    numbers.shape.push_back(*size);
    count *= *size;
  }
  if (count != static_cast<int64_t>(type.numbers->size())) return std::nullopt;
  numbers.values = *type.numbers;
  return numbers;
}

RowType TypeOf(SizeTable& sizes, const Numbers& numbers) {
  Sizes dims;
  for (int64_t size : numbers.shape) dims.push_back(sizes.Constant(size));
  return TypeOfNumbers(sizes, std::move(dims), numbers.values);
}

std::vector<std::vector<int64_t>> Coordinates(const std::vector<int64_t>& shape) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (int64_t size : shape) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& start : all) {
      for (int64_t i = 0; i < size; ++i) {
        longer.push_back(start);
        longer.back().push_back(i);
      }
    }
    all = std::move(longer);
  }
  return all;
}

Size At(const Numbers& numbers, absl::Span<const int64_t> at) {
  const size_t extra = at.size() - numbers.shape.size();
  int64_t place = 0;
  for (size_t d = 0; d < numbers.shape.size(); ++d) {
    place = place * numbers.shape[d] + (numbers.shape[d] == 1 ? 0 : at[d + extra]);
  }
  return numbers.values[place];
}

std::optional<std::vector<int64_t>> BroadcastShape(const std::vector<Numbers>& in) {
  std::vector<int64_t> shape;
  for (const Numbers& numbers : in) {
    if (numbers.shape.size() > shape.size()) {
      shape.insert(shape.begin(), numbers.shape.size() - shape.size(), 1);
    }
    const size_t extra = shape.size() - numbers.shape.size();
    for (size_t d = 0; d < numbers.shape.size(); ++d) {
      int64_t& size = shape[d + extra];
      if (size != 1 && numbers.shape[d] != 1 && size != numbers.shape[d]) {
        return std::nullopt;
      }
      if (numbers.shape[d] != 1) size = numbers.shape[d];
    }
  }
  return shape;
}

}  // namespace tensorbow
