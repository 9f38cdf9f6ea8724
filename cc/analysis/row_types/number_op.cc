#include "cc/analysis/row_types/number_op.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/number_arithmetic.h"
#include "cc/analysis/row_types/slices.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

// One op on numbers, with the inputs that are constants.
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

  // Returns nullopt if the result does not follow from numbers.
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
      return One(Filled(in_[0].shape, [&](const auto& at) {
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
    Numbers numbers = Filled(*shape, [&](const auto& at) {
      Size value = Arithmetic(sizes_, op_.op(), At(in_[0], at), At(in_[1], at));
      if (!value.known() && !of_rows) {
        value = sizes_.Open(absl::StrCat(op_.path(), ":", place));
      }
      ++place;
      known += value.known() ? 1 : 0;
      return value;
    });
    // A function of numbers of rows that is no polynomial has a value, but no numbers.
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
    return One(Filled(*shape, [&](const auto& at) {
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
      return One(Filled(shape, [&](const auto& at) {
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
      return One(Filled(stacked, [&](std::vector<int64_t> at) {
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
    return One(Filled(std::move(shape), [&](std::vector<int64_t> at) {
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
    // The positions taken on each axis, and whether the axis stays.
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
    Numbers numbers = Filled(all, [&](const auto& at) {
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

}  // namespace

std::optional<Types> EvaluateNumbers(OpView& op, std::vector<Numbers> in) {
  return NumberOp(op, std::move(in)).Evaluate();
}

}  // namespace tensorbow
