// Numbers of elements (sizes.h) in the shape of a tensor: operands of ops on shapes.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_ARRAYS_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_ARRAYS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "cc/analysis/row_types/types.h"

namespace tensorbow {

struct Numbers {
  std::vector<int64_t> shape;
  Sizes values;

  int rank() const { return static_cast<int>(shape.size()); }
};

Numbers Scalar(Size value);
Numbers Vector(Sizes values);

// Returns the numbers of a value; nullopt if it has none, or if its shape is not known.
std::optional<Numbers> NumbersOf(const SizeTable& sizes, const RowType& type);
RowType TypeOf(SizeTable& sizes, const Numbers& numbers);

// Returns all coordinates of a shape, in order.
std::vector<std::vector<int64_t>> Coordinates(const std::vector<int64_t>& shape);
// Returns the element at a coordinate, broadcast from the right.
Size At(const Numbers& numbers, absl::Span<const int64_t> at);
// Makes numbers of a shape, each from its coordinate.
template <typename F>
Numbers Filled(std::vector<int64_t> shape, F value) {
  Numbers numbers;
  for (const auto& at : Coordinates(shape)) numbers.values.push_back(value(at));
  numbers.shape = std::move(shape);
  return numbers;
}
// Returns the shape of an elementwise result; nullopt if the shapes do not fit.
std::optional<std::vector<int64_t>> BroadcastShape(const std::vector<Numbers>& in);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_ARRAYS_H_
