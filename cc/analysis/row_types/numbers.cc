// Results that follow from numbers of elements which are known: shapes, and what is
// computed from them.
#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/slices.h"
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

constexpr int64_t kMostNumbers = 64;
constexpr int64_t kMostElements = 4096;  // of a constant that is looked at

// Numbers of elements in the shape of a tensor.
struct Numbers {
  std::vector<int64_t> shape;
  Sizes values;

  int rank() const { return static_cast<int>(shape.size()); }
};

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

// All coordinates of a shape, in order.
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

// The element at a coordinate, broadcast from the right.
Size At(const Numbers& numbers, absl::Span<const int64_t> at) {
  const size_t extra = at.size() - numbers.shape.size();
  int64_t place = 0;
  for (size_t d = 0; d < numbers.shape.size(); ++d) {
    place = place * numbers.shape[d] + (numbers.shape[d] == 1 ? 0 : at[d + extra]);
  }
  return numbers.values[place];
}

template <typename F>
Numbers Fill(std::vector<int64_t> shape, F value) {
  Numbers numbers;
  for (const auto& at : Coordinates(shape)) numbers.values.push_back(value(at));
  numbers.shape = std::move(shape);
  return numbers;
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

int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// The larger of a polynomial and a number that it is never below.
Size Larger(const SizeTable& sizes, Size a, Size b) {
  const bool first = sizes.Number(a).has_value();
  const Size small = first ? a : b, large = first ? b : a;
  int64_t least = 0;
  for (const auto& [powers, coefficient] : sizes.Terms(large)) {
    if (coefficient < 0) return kUnknownSize;
    least += coefficient;
  }
  const std::optional<int64_t> number = sizes.Number(small);
  return number.has_value() && *number <= least ? large : kUnknownSize;
}

Size Arithmetic(SizeTable& sizes, absl::string_view op, Size a, Size b) {
  if (!a.known() || !b.known()) return kUnknownSize;
  if (op == "Add" || op == "AddV2") return sizes.Plus(a, b);
  if (op == "Sub") return sizes.Minus(a, b);
  if (op == "Mul") return sizes.Times(a, b);
  const std::optional<int64_t> x = sizes.Number(a), y = sizes.Number(b);
  const bool both = x.has_value() && y.has_value();
  if (op == "Maximum" || op == "Minimum") {
    if (both)
      return sizes.Constant(op == "Maximum" ? std::max(*x, *y) : std::min(*x, *y));
    if (a == b) return a;
    return op == "Maximum" ? Larger(sizes, a, b) : kUnknownSize;
  }
  if (b == kZeroSize) return kUnknownSize;
  if (op == "FloorMod") {
    if (both) return sizes.Constant(*x - FloorDiv(*x, *y) * *y);
    return sizes.Over(a, b).known() ? kZeroSize : kUnknownSize;
  }
  if (both && op == "FloorDiv") return sizes.Constant(FloorDiv(*x, *y));
  if (both && op == "TruncateDiv") return sizes.Constant(*x / *y);
  return sizes.Over(a, b);
}

bool IsArithmetic(absl::string_view op) {
  for (absl::string_view name :
       {"Add", "AddV2", "Sub", "Mul", "FloorDiv", "RealDiv", "Maximum", "Minimum",
        "Div", "TruncateDiv", "FloorMod"}) {
    if (op == name) return true;
  }
  return false;
}

std::optional<bool> Compare(absl::string_view op, int64_t a, int64_t b) {
  if (op == "Equal") return a == b;
  if (op == "NotEqual") return a != b;
  if (op == "Greater") return a > b;
  if (op == "GreaterEqual") return a >= b;
  if (op == "Less") return a < b;
  if (op == "LessEqual") return a <= b;
  return std::nullopt;
}

// One op on numbers, and its inputs as constants where they are.
class NumberOp {
 public:
  NumberOp(OpView& op, std::vector<Numbers> in)
      : op_(op), sizes_(op.sizes()), in_(std::move(in)) {
    for (const Numbers& numbers : in_) {
      std::optional<std::vector<int64_t>> ints(std::in_place);
      for (Size value : numbers.values) {
        const std::optional<int64_t> number = sizes_.Number(value);
        if (!number.has_value()) {
          ints.reset();
          break;
        }
        ints->push_back(*number);
      }
      ints_.push_back(std::move(ints));
    }
  }

  // nullopt: does not follow from numbers.
  std::optional<Types> Evaluate() {
    std::optional<std::vector<Numbers>> outputs = Outputs();
    if (!outputs.has_value()) return std::nullopt;
    Types types;
    for (const Numbers& numbers : *outputs) {
      if (static_cast<int64_t>(numbers.values.size()) > kMostNumbers)
        return std::nullopt;
      types.push_back(TypeOf(sizes_, numbers));
    }
    return types;
  }

 private:
  using Outcome = std::optional<std::vector<Numbers>>;

  static Outcome One(Numbers numbers) {
    return std::vector<Numbers>{std::move(numbers)};
  }
  bool Known(size_t i) const { return i < ints_.size() && ints_[i].has_value(); }
  bool KnownFrom(size_t i) const {
    for (; i < ints_.size(); ++i) {
      if (!Known(i)) return false;
    }
    return true;
  }
  const std::vector<int64_t>& Ints(size_t i) const { return *ints_[i]; }

  Outcome Outputs() {
    const absl::string_view op = op_.op();
    if (IsArithmetic(op)) return OfArithmetic();
    if (op_.is({"Identity", "StopGradient", "PreventGradient", "Snapshot", "Enter",
                "Exit", "EnsureShape"})) {
      return One(in_[0]);
    }
    if (op == "Cast") {
      const tf::DataType to = op_.output_type(0);
      if (!tf::DataTypeIsFloating(to) && !tf::DataTypeIsInteger(to))
        return std::nullopt;
      return One(in_[0]);
    }
    if (op == "Neg")
      return One(Fill(in_[0].shape, [&](const auto& at) {
        return sizes_.Minus(kZeroSize, At(in_[0], at));
      }));
    if (op == "Select" || op == "SelectV2") return OfSelect();
    if (in_.size() == 2 && Known(0) && Known(1) && Compare(op, 0, 0).has_value()) {
      return OfComparison();
    }
    if (op_.is({"Prod", "Sum"})) return OfReduction();
    if (op_.is({"Reshape", "ExpandDims", "Squeeze", "Transpose"})) return OfShape();
    if (op_.is({"Pack", "Unpack", "Concat", "ConcatV2"})) return OfPieces();
    if (op_.is({"StridedSlice", "Slice", "Gather", "GatherV2"})) return OfChoice();
    return OfLists();
  }

  Outcome OfArithmetic() {
    const auto shape = BroadcastShape(in_);
    if (!shape.has_value() || in_.size() != 2) return std::nullopt;
    bool of_rows = false;
    for (const Numbers& numbers : in_) {
      for (Size value : numbers.values) {
        of_rows |= !value.known() || sizes_.HasRows(value);
      }
    }
    int place = 0, known = 0;
    Numbers numbers = Fill(*shape, [&](const auto& at) {
      Size value = Arithmetic(sizes_, op_.op(), At(in_[0], at), At(in_[1], at));
      if (!value.known() && !of_rows) {
        value = sizes_.Open(absl::StrCat(op_.path(), ":", place));
      }
      ++place;
      known += value.known() ? 1 : 0;
      return value;
    });
    // A function of numbers of rows that is no polynomial is a value only.
    if (known < place && (shape->empty() || known == 0)) return std::nullopt;
    return One(std::move(numbers));
  }

  Outcome OfSelect() {
    if (!Known(0) || in_[0].shape != in_[1].shape || in_[1].shape != in_[2].shape) {
      return std::nullopt;
    }
    Numbers chosen = in_[1];
    for (size_t i = 0; i < chosen.values.size(); ++i) {
      if (Ints(0)[i] == 0) chosen.values[i] = in_[2].values[i];
    }
    return One(std::move(chosen));
  }

  Outcome OfComparison() {
    const auto shape = BroadcastShape(in_);
    if (!shape.has_value()) return std::nullopt;
    return One(Fill(*shape, [&](const auto& at) {
      return sizes_.Constant(*Compare(op_.op(), *sizes_.Number(At(in_[0], at)),
                                      *sizes_.Number(At(in_[1], at)))
                                 ? 1
                                 : 0);
    }));
  }

  Outcome OfReduction() {
    if (!Known(1) || in_[0].rank() > 1) return std::nullopt;
    const bool reduces = in_[0].rank() == 1 && Ints(1).size() == 1 &&
                         (Ints(1)[0] == 0 || Ints(1)[0] == -1);
    if (!reduces)
      return Ints(1).empty() || in_[0].rank() == 0 ? One(in_[0]) : std::nullopt;
    Size total = op_.op() == "Prod" ? kOneSize : kZeroSize;
    for (Size value : in_[0].values) {
      total =
          op_.op() == "Prod" ? sizes_.Times(total, value) : sizes_.Plus(total, value);
    }
    return One(op_.Flag("keep_dims") ? Vector({total}) : Scalar(total));
  }

  Outcome OfShape() {
    Numbers numbers = in_[0];
    const int rank = numbers.rank();
    if (op_.op() == "Squeeze") {
      const auto named = op_.Attr<std::vector<int64_t>>("squeeze_dims", {});
      std::vector<int64_t> shape;
      for (int d = 0; d < rank; ++d) {
        const bool is_named =
            std::any_of(named.begin(), named.end(),
                        [&](int64_t axis) { return axis == d || axis + rank == d; });
        if (is_named || (named.empty() && numbers.shape[d] == 1)) continue;
        shape.push_back(numbers.shape[d]);
      }
      numbers.shape = std::move(shape);
      return One(std::move(numbers));
    }
    if (!Known(1)) return std::nullopt;
    if (op_.op() == "ExpandDims") {
      const std::optional<int> axis =
          Ints(1).size() == 1 ? AxisOf(Ints(1)[0], rank + 1) : std::nullopt;
      if (!axis.has_value()) return std::nullopt;
      numbers.shape.insert(numbers.shape.begin() + *axis, 1);
      return One(std::move(numbers));
    }
    if (op_.op() == "Transpose") {
      if (rank < 2) return One(std::move(numbers));
      std::vector<int64_t> shape;
      for (int64_t from : Ints(1)) shape.push_back(numbers.shape[from]);
      return One(Fill(shape, [&](const auto& at) {
        std::vector<int64_t> source(at.size());
        for (size_t d = 0; d < at.size(); ++d) source[Ints(1)[d]] = at[d];
        return At(in_[0], source);
      }));
    }
    std::vector<int64_t> shape = Ints(1);
    int64_t rest = static_cast<int64_t>(numbers.values.size());
    for (int64_t size : shape) rest = size > 0 ? rest / size : rest;
    int64_t count = 1;
    for (int64_t& size : shape) {
      if (size == -1) size = rest;
      count *= size;
    }
    if (count != static_cast<int64_t>(numbers.values.size())) return std::nullopt;
    numbers.shape = std::move(shape);
    return One(std::move(numbers));
  }

  Outcome OfPieces() {
    if (op_.op() == "Unpack") {
      if (in_[0].rank() != 1) return std::nullopt;
      std::vector<Numbers> outputs;
      for (Size value : in_[0].values) outputs.push_back(Scalar(value));
      return outputs;
    }
    if (op_.op() == "Pack") {
      const std::vector<int64_t>& shape = in_[0].shape;
      for (const Numbers& numbers : in_) {
        if (numbers.shape != shape) return std::nullopt;
      }
      const std::optional<int> axis =
          AxisOf(op_.Attr<int64_t>("axis", 0), in_[0].rank() + 1);
      if (!axis.has_value()) return std::nullopt;
      std::vector<int64_t> stacked = shape;
      stacked.insert(stacked.begin() + *axis, static_cast<int64_t>(in_.size()));
      return One(Fill(stacked, [&](std::vector<int64_t> at) {
        const int64_t piece = at[*axis];
        at.erase(at.begin() + *axis);
        return At(in_[piece], at);
      }));
    }
    return OfConcatenation();
  }

  Outcome OfConcatenation() {
    const size_t at_axis = op_.op() == "ConcatV2" ? in_.size() - 1 : 0;
    std::vector<Numbers> pieces = in_;
    pieces.erase(pieces.begin() + at_axis);
    if (!Known(at_axis) || Ints(at_axis).size() != 1) return std::nullopt;
    const std::optional<int> axis = AxisOf(Ints(at_axis)[0], pieces[0].rank());
    if (!axis.has_value()) return std::nullopt;
    std::vector<int64_t> shape = pieces[0].shape;
    shape[*axis] = 0;
    for (const Numbers& piece : pieces) {
      if (piece.rank() != pieces[0].rank()) return std::nullopt;
      for (int d = 0; d < piece.rank(); ++d) {
        if (d == *axis) {
          shape[d] += piece.shape[d];
        } else if (piece.shape[d] != shape[d]) {
          return std::nullopt;
        }
      }
    }
    return One(Fill(std::move(shape), [&](std::vector<int64_t> at) {
      for (const Numbers& piece : pieces) {
        if (at[*axis] < piece.shape[*axis]) return At(piece, at);
        at[*axis] -= piece.shape[*axis];
      }
      return kUnknownSize;
    }));
  }

  Outcome OfChoice() {
    if (!KnownFrom(1)) return std::nullopt;
    if (op_.is({"Gather", "GatherV2"})) {
      if (in_[0].rank() != 1 || op_.Attr<int64_t>("batch_dims", 0) != 0) {
        return std::nullopt;
      }
      for (int64_t place : Ints(1)) {
        if (place < 0 || place >= in_[0].shape[0]) return std::nullopt;
      }
      Numbers gathered = in_[1];
      for (size_t i = 0; i < gathered.values.size(); ++i) {
        gathered.values[i] = in_[0].values[Ints(1)[i]];
      }
      return One(std::move(gathered));
    }
    // By axis: the places taken, and whether the axis stays.
    std::vector<std::pair<std::vector<int64_t>, bool>> taken;
    if (op_.op() == "Slice") {
      for (int d = 0; d < in_[0].rank(); ++d) {
        const int64_t begin = Ints(1)[d], all = in_[0].shape[d];
        const int64_t count = Ints(2)[d] == -1 ? all - begin : Ints(2)[d];
        if (begin < 0 || begin + count > all) return std::nullopt;
        taken.push_back({Places(begin, begin + count, 1), true});
      }
      return One(Taken(taken, {}));
    }
    std::vector<int> new_axes;
    for (const StrideEntry& entry :
         StridesOf(op_, in_[0].rank(), in_[1].values, in_[2].values, in_[3].values)) {
      if (!entry.axis.has_value()) {
        new_axes.push_back(static_cast<int>(taken.size()));
        continue;
      }
      const int64_t all = in_[0].shape[*entry.axis];
      const int64_t step = *sizes_.Number(entry.step);
      if (step == 0) return std::nullopt;
      const auto place = [&](const std::optional<Size>& at, int64_t otherwise) {
        if (!at.has_value()) return otherwise;
        const int64_t number = *sizes_.Number(*at);
        return std::clamp<int64_t>(number < 0 ? number + all : number,
                                   step > 0 ? 0 : -1, step > 0 ? all : all - 1);
      };
      const int64_t begin = place(entry.begin, step > 0 ? 0 : all - 1);
      const int64_t end =
          entry.shrinks ? begin + step : place(entry.end, step > 0 ? all : -1);
      if (entry.shrinks && (begin < 0 || begin >= all)) return std::nullopt;
      taken.push_back({Places(begin, end, step), !entry.shrinks});
    }
    return One(Taken(taken, new_axes));
  }

  static std::vector<int64_t> Places(int64_t begin, int64_t end, int64_t step) {
    std::vector<int64_t> places;
    for (int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
      places.push_back(at);
    }
    return places;
  }

  Numbers Taken(const std::vector<std::pair<std::vector<int64_t>, bool>>& taken,
                const std::vector<int>& new_axes) {
    std::vector<int64_t> all;
    for (const auto& [places, stays] : taken) {
      all.push_back(static_cast<int64_t>(places.size()));
    }
    Numbers numbers = Fill(all, [&](const auto& at) {
      std::vector<int64_t> source;
      for (size_t d = 0; d < at.size(); ++d) source.push_back(taken[d].first[at[d]]);
      return At(in_[0], source);
    });
    numbers.shape.clear();
    for (size_t d = 0; d <= taken.size(); ++d) {
      for (int axis : new_axes) {
        if (axis == static_cast<int>(d)) numbers.shape.push_back(1);
      }
      if (d < taken.size() && taken[d].second) numbers.shape.push_back(all[d]);
    }
    return numbers;
  }

  Outcome OfLists() {
    const absl::string_view op = op_.op();
    if (op == "Fill" && Known(0)) {
      int64_t count = 1;
      for (int64_t size : Ints(0)) count *= size;
      if (count > kMostNumbers) return std::nullopt;
      return One(Numbers{Ints(0), Sizes(count, in_[1].values[0])});
    }
    if (op == "Range" && KnownFrom(0) && in_.size() == 3 && Ints(2)[0] != 0) {
      Sizes values;
      const std::vector<int64_t> places = Places(Ints(0)[0], Ints(1)[0], Ints(2)[0]);
      if (places.size() > 16) return std::nullopt;
      for (int64_t place : places) values.push_back(sizes_.Constant(place));
      return One(Vector(std::move(values)));
    }
    if (op == "DynamicStitch") {
      const size_t half = in_.size() / 2;
      std::map<int64_t, Size> table;
      for (size_t i = 0; i < half; ++i) {
        if (!Known(i) || in_[i].rank() > 1 || in_[half + i].rank() > 1 ||
            in_[i].values.size() != in_[half + i].values.size()) {
          return std::nullopt;
        }
        for (size_t j = 0; j < Ints(i).size(); ++j) {
          table[Ints(i)[j]] = in_[half + i].values[j];
        }
      }
      Sizes values(table.empty() ? 0 : table.rbegin()->first + 1, kUnknownSize);
      for (const auto& [place, value] : table) values[place] = value;
      return One(Vector(std::move(values)));
    }
    if (op == "ListDiff" && KnownFrom(0)) {
      Sizes rest, places;
      for (size_t i = 0; i < Ints(0).size(); ++i) {
        if (std::count(Ints(1).begin(), Ints(1).end(), Ints(0)[i]) > 0) continue;
        rest.push_back(in_[0].values[i]);
        places.push_back(sizes_.Constant(static_cast<int64_t>(i)));
      }
      return std::vector<Numbers>{Vector(rest), Vector(places)};
    }
    if (op == "InvertPermutation" && Known(0)) {
      Sizes values(Ints(0).size(), kZeroSize);
      for (size_t i = 0; i < Ints(0).size(); ++i) {
        values[Ints(0)[i]] = sizes_.Constant(static_cast<int64_t>(i));
      }
      return One(Vector(std::move(values)));
    }
    return std::nullopt;
  }

  OpView& op_;
  SizeTable& sizes_;
  const std::vector<Numbers> in_;
  std::vector<std::optional<std::vector<int64_t>>> ints_;
};

// The sizes of an input; nullopt if its rank is not known.
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
  return NumberOp(op, std::move(numbers)).Evaluate();
}

}  // namespace tensorbow
