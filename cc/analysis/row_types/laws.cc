#include "cc/analysis/row_types/laws.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace {

using Need = RowNeed::Kind;

}  // namespace

const RowType* FirstUnknown(const Types& types) {
  for (const RowType& type : types) {
    if (type.unknown()) return &type;
  }
  return nullptr;
}

std::optional<int> AxisOf(std::optional<int64_t> axis, int rank) {
  if (!axis.has_value() || *axis < -rank || *axis >= rank) return std::nullopt;
  return static_cast<int>(*axis < 0 ? *axis + rank : *axis);
}

RowType AfterExchange(RowType type) {
  type.kind = RowKind::kSame;
  type.exponent = 0;
  type.numbers.reset();
  type.of_all_rows = true;
  type.axis = -1;
  type.part = kFedRows;
  type.own = OwnPlaces();
  return type;
}

RowType AsRows(const RowType& type, const SizeTable& sizes) {
  if (!type.is(RowKind::kZero) || !type.dims.has_value()) return type;
  std::vector<int> axes;
  for (int d = 0; d < type.rank(); ++d) {
    if (sizes.HasRows((*type.dims)[d])) axes.push_back(d);
  }
  if (axes.size() != 1) return type;
  const std::optional<Part> part = sizes.PartOf((*type.dims)[axes[0]]);
  if (!part.has_value()) return type;
  RowType rows = MakeRows(axes[0], *part, type.dims);
  rows.uniform = Uniform::kEverywhere;
  return rows;
}

Part PartAmong(const RowType& type, const Types& others) {
  if (type.part != kAnyRows && type.uniform != Uniform::kEverywhere) return type.part;
  for (const RowType& other : others) {
    if (other.part != kAnyRows && other.uniform != Uniform::kEverywhere) {
      return other.part;
    }
  }
  return type.part == kAnyRows ? kFedRows : type.part;
}

RowType Elementwise(OpView& op, Types in) {
  return Spread(op, op.Flats(std::move(in)));
}

namespace {

// Types a row's index times a number, plus less than that number. The bound is assumed,
// not proved.
std::optional<RowType> Near(const OpView& op, const Types& in) {
  if (in.size() != 2 || !op.is({"Add", "AddV2"})) return std::nullopt;
  for (int k : {0, 1}) {
    const RowType& other = in[1 - k];
    if (in[k].own.kind != OwnPlaces::Kind::kStep) continue;
    if (!other.is(RowKind::kRows) && !other.is(RowKind::kSame) &&
        !other.is(RowKind::kZero)) {
      continue;
    }
    RowType near = in[k];
    near.own.kind = OwnPlaces::Kind::kNear;
    return near;
  }
  return std::nullopt;
}

struct Live {
  std::vector<int> at;  // inputs that are not zero
  std::set<RowKind> kinds;
};
Live LiveOf(const Types& in) {
  Live live;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].is(RowKind::kZero)) continue;
    live.at.push_back(static_cast<int>(i));
    live.kinds.insert(in[i].kind);
  }
  return live;
}

// Returns the exponent that a summand has as a sum.
int ExponentAsSum(const RowType& type) {
  return type.exponent + (type.is(RowKind::kSame) ? 1 : 0);
}

}  // namespace

RowType Add(OpView& op, Types in) {
  if (const RowType* unknown = FirstUnknown(in)) return *unknown;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].extreme() || in[i].is(RowKind::kSizes)) {
      in[i] = op.Flat(static_cast<int>(i), in[i]);
    }
  }
  Live live = LiveOf(in);
  if (live.at.empty()) return Spread(op, in, 0, RowKind::kZero);
  if (live.kinds.count(RowKind::kList) > 0) {
    RowType joined = in[0];
    for (size_t i = 1; i < in.size(); ++i) joined = Join(op, joined, in[i]);
    return joined;
  }
  if (const std::optional<RowType> near = Near(op, in)) return *near;
  if (live.kinds.count(RowKind::kSlotted) > 0) {
    if (live.at.size() == 1) return in[live.at[0]];
    return op.Flat(live.at[0], in[live.at[0]]);
  }
  const bool rounds =
      !tensorflow::DataTypeIsFloating(op.output_type(0)) && live.kinds.size() > 1;
  if (live.kinds.count(RowKind::kSum) > 0 &&
      (live.kinds.count(RowKind::kRows) > 0 || rounds)) {
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = op.Exchanged(static_cast<int>(i), in[i]);
    }
    live = LiveOf(in);
  }
  if (live.kinds.count(RowKind::kSum) > 0) {
    int exponent = ExponentAsSum(in[live.at[0]]);
    for (int i : live.at) exponent = std::max(exponent, ExponentAsSum(in[i]));
    for (int i : live.at) {
      if (ExponentAsSum(in[i]) == 1) exponent = 1;
    }
    for (int i : live.at) {
      const int by = ExponentAsSum(in[i]) - exponent;
      if (by != 0) op.Need(Need::kRescale, i, in[i], by);
    }
    return Spread(op, in, exponent, RowKind::kSum);
  }
  std::optional<int> of_rows;
  std::set<int> exponents;
  for (int i : live.at) {
    exponents.insert(in[i].exponent);
    if (in[i].is(RowKind::kRows) && !of_rows.has_value()) of_rows = in[i].exponent;
  }
  const int exponent = of_rows.value_or(exponents.size() == 1 ? *exponents.begin() : 0);
  for (int i : live.at) in[i] = op.Rescaled(i, in[i], exponent);
  return Spread(op, in, exponent);
}

RowType Multiply(OpView& op, Types in, bool divides) {
  if (const RowType* unknown = FirstUnknown(in)) return *unknown;
  for (int k : {0, 1}) {
    if (in[k].extreme() || in[k].is(RowKind::kSizes)) in[k] = op.Flat(k, in[k]);
  }
  RowType &a = in[0], &b = in[1];
  if (a.is(RowKind::kZero) || (b.is(RowKind::kZero) && !divides)) {
    if (!a.is(RowKind::kRows) && !b.is(RowKind::kRows)) {
      return Spread(op, in, 0, RowKind::kZero);
    }
    RowType zero = Spread(op, in);
    if (zero.unknown()) return zero;
    return Make(RowKind::kZero, zero.dims);
  }
  for (int k : {0, 1}) {
    const RowType &places = in[k], &factor = in[1 - k];
    if (divides || places.own.kind != OwnPlaces::Kind::kPlace ||
        !factor.is(RowKind::kSame) || !factor.numbers.has_value() ||
        factor.numbers->empty() || !places.dims.has_value() || places.rank() != 1) {
      continue;
    }
    RowType step = places;
    step.own.kind = OwnPlaces::Kind::kStep;
    step.own.of = op.sizes().Times(places.own.of, (*factor.numbers)[0]);
    return step;
  }
  if (divides && b.is(RowKind::kSum)) b = op.Exchanged(1, b);
  if (a.is(RowKind::kSlotted) || b.is(RowKind::kSlotted)) {
    if (a.is(RowKind::kSlotted) && b.is(RowKind::kSame)) return a;
    if (b.is(RowKind::kSlotted) && a.is(RowKind::kSame) && !divides) return b;
    in = op.Flats(in);
    if (const RowType* unknown = FirstUnknown(in)) return *unknown;
    RowType same = Make(RowKind::kSame);
    same.of_all_rows = true;
    return same;
  }
  if ((a.is(RowKind::kSum) && !b.is(RowKind::kSame)) ||
      (b.is(RowKind::kSum) && !a.is(RowKind::kSame))) {
    a = op.Exchanged(0, a);
    b = op.Exchanged(1, b);
  }
  const int exponent = a.exponent + (divides ? -b.exponent : b.exponent);
  const bool sums = a.is(RowKind::kSum) || b.is(RowKind::kSum);
  return Spread(op, in, exponent, sums ? RowKind::kSum : RowKind::kSame);
}

RowType Choose(OpView& op, Types in) {
  if (const RowType* unknown = FirstUnknown(in)) return *unknown;
  in[0] = op.Flat(0, in[0]);
  bool partial = false, sum_only = in[0].is(RowKind::kSame);
  for (int i : {1, 2}) {
    if (in[i].is(RowKind::kSizes)) in[i] = op.Flat(i, in[i]);
    partial |= in[i].partial();
    sum_only &=
        in[i].is(RowKind::kSum) || in[i].is(RowKind::kZero) || in[i].is(RowKind::kSame);
  }
  if (partial && sum_only) {
    std::set<int> exponents;
    for (int i : {1, 2}) {
      if (!in[i].is(RowKind::kZero)) exponents.insert(ExponentAsSum(in[i]));
    }
    if (exponents.size() == 1) {
      return Spread(op, in, *exponents.begin(), RowKind::kSum);
    }
  }
  if (partial) {
    for (int i : {1, 2}) in[i] = op.Flat(i, in[i]);
  }
  int exponent = 0;
  for (int i : {2, 1}) {
    if (!in[i].is(RowKind::kZero)) exponent = in[i].exponent;
  }
  for (int i : {2, 1}) {
    if (in[i].is(RowKind::kRows)) exponent = in[i].exponent;
  }
  for (int i : {1, 2}) {
    if (!in[i].is(RowKind::kZero)) in[i] = op.Rescaled(i, in[i], exponent);
  }
  if (const RowType* unknown = FirstUnknown(in)) return *unknown;
  // Select's condition may be a vector that chooses whole rows.
  if (op.op() == "Select" && in[0].dims.has_value() && in[0].rank() == 1 &&
      in[1].dims.has_value() && in[1].rank() > 1) {
    in[0].dims->resize(in[1].rank(), kOneSize);
  }
  return Spread(op, in, exponent);
}

RowType Contract(OpView& op, std::vector<Factor> factors, const std::string& out,
                 std::optional<Sizes> dims) {
  int sums = 0;
  bool others_same = true, of_all_rows = false;
  for (Factor& factor : factors) {
    if (factor.type.unknown()) return factor.type;
    if (factor.type.is(RowKind::kZero)) return Make(RowKind::kZero, dims);
  }
  for (Factor& factor : factors) {
    if (factor.type.extreme() || factor.type.is(RowKind::kSlotted)) {
      factor.type = op.Flat(factor.input, factor.type);
    }
    if (factor.type.is(RowKind::kSum)) {
      ++sums;
    } else {
      others_same &= factor.type.is(RowKind::kSame);
    }
  }
  if (sums > 1 || (sums == 1 && !others_same)) {
    for (Factor& factor : factors) {
      factor.type = op.Exchanged(factor.input, factor.type);
    }
    sums = 0;
  }
  int exponent = 0;
  Types rows;
  std::set<char> labels;
  for (const Factor& factor : factors) {
    exponent += factor.type.exponent;
    of_all_rows |= factor.type.of_all_rows;
    if (!factor.type.is(RowKind::kRows)) continue;
    rows.push_back(factor.type);
    labels.insert(factor.labels[factor.type.axis]);
  }
  if (rows.empty()) {
    RowType type = Make(sums > 0 ? RowKind::kSum : RowKind::kSame, dims, exponent);
    type.of_all_rows = of_all_rows;
    bool everywhere = factors.size() > 1, along = !out.empty();
    for (const Factor& factor : factors) {
      everywhere &= factor.type.uniform == Uniform::kEverywhere;
      along &= &factor == &factors[0]
                   ? factor.type.uniform != Uniform::kNo &&
                         factor.labels.substr(0, 1) == out.substr(0, 1)
                   : factor.labels.find(out[0]) == std::string::npos;
    }
    type.uniform = everywhere ? Uniform::kEverywhere
                   : along    ? Uniform::kAlongRows
                              : Uniform::kNo;
    return type;
  }
  if (labels.size() > 1) return op.Unknown("combines every row with every other");
  std::set<Part> parts;
  for (const RowType& type : rows) parts.insert(PartAmong(type, rows));
  if (parts.size() > 1) return op.Unknown("combines rows of different selections");
  const char label = *labels.begin();
  for (const Factor& factor : factors) {
    const size_t at = factor.labels.find(label);
    if (!factor.type.is(RowKind::kSame) || at == std::string::npos ||
        !factor.type.dims.has_value() || at >= factor.type.dims->size() ||
        (*factor.type.dims)[at] == kOneSize) {
      continue;
    }
    return op.Unknown("combines rows with a constant that has as many elements");
  }
  const size_t axis = out.find(label);
  if (axis == std::string::npos) return Make(RowKind::kSum, dims, exponent);
  return MakeRows(static_cast<int>(axis), *parts.begin(), dims, exponent);
}

RowType Along(OpView& op, int input, RowType type, std::optional<int64_t> axis) {
  type = op.Flat(input, std::move(type));
  if (type.is(RowKind::kSame)) {
    const auto rank = type.dims.has_value() ? type.rank() : -1;
    const bool keeps = op.num_outputs() == 1 && op.OutputShape(0).dims() == rank;
    RowType same = Make(RowKind::kSame, keeps ? type.dims : std::nullopt);
    same.of_all_rows = type.of_all_rows;
    return same;
  }
  if (!type.is(RowKind::kRows)) return type;
  const std::optional<int> along =
      type.dims.has_value() ? AxisOf(axis, type.rank()) : std::nullopt;
  if (!along.has_value()) return op.Unknown("works along an unknown axis");
  if (*along == type.axis) return op.Unknown("works along the rows");
  return type.Plain();
}

}  // namespace tensorbow
