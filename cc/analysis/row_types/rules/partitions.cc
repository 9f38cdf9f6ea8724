// Ops that partition rows by data, and stitch the parts together again.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

using Places = OwnPlaces::Kind;

// Types the inverse of DynamicPartition.
std::optional<RowType> StitchOfParts(OpView& op, const Types& in) {
  const size_t half = in.size() / 2;
  SizeTable& sizes = op.sizes();
  std::set<int> choices;
  std::optional<int> exponent;
  std::optional<Sizes> rest;
  for (size_t i = 0; i < half; ++i) {
    const RowType &at = in[i], &values = in[half + i];
    const SizeTable::PartInfo& info = sizes.Info(at.part);
    const SizeTable::PartInfo& first = sizes.Info(in[0].part);
    if (!at.is(RowKind::kRows) || at.own.kind != Places::kPlace ||
        !(at.own == in[0].own) || info.kind != SizeTable::PartInfo::Kind::kChosen ||
        info.choice < 0 || info.chooser != first.chooser ||
        !choices.insert(info.choice).second) {
      return std::nullopt;
    }
    if (values.is(RowKind::kZero)) continue;
    if (!values.is(RowKind::kRows) || values.axis != 0 || values.part != at.part ||
        values.own.kind != Places::kNone || !values.dims.has_value()) {
      return std::nullopt;
    }
    if (!exponent.has_value()) exponent = values.exponent;
    op.Rescaled(static_cast<int>(half + i), values, *exponent);
    rest = Sizes(values.dims->begin() + 1, values.dims->end());
  }
  const std::optional<Part> part = op.sizes().PartOf(in[0].own.of);
  if (!rest.has_value() || !part.has_value()) return std::nullopt;
  rest->insert(rest->begin(), in[0].own.of);
  return MakeRows(0, *part, rest, exponent.value_or(0));
}

Types Stitch(OpView& op, Types in) {
  if (std::any_of(in.begin(), in.end(),
                  [](const RowType& type) { return type.is(RowKind::kRows); })) {
    const std::optional<RowType> rows = StitchOfParts(op, in);
    return {rows.has_value() ? *rows : op.Unknown("scatters rows to positions")};
  }
  in = op.Flats(std::move(in));
  if (const RowType* unknown = FirstUnknown(in)) return {*unknown};
  return {Same(in)};
}

Types Partition(OpView& op, Types in) {
  const RowType &type = in[0], by = op.Flat(1, in[1]);
  if (by.unknown()) return {by};
  if (!type.is(RowKind::kRows) || !by.is(RowKind::kRows) || type.axis != 0 ||
      by.axis != 0 || !type.dims.has_value() || !by.dims.has_value()) {
    if (type.is(RowKind::kSame) && by.is(RowKind::kSame)) {
      RowType same = Same({type, by});
      same.exponent = type.exponent;
      return {same};
    }
    return {op.Unknown("partitions rows together with values without rows")};
  }
  Types types;
  for (int k = 0; k < op.num_outputs(); ++k) {
    const Part part = op.sizes().Chosen(op.SourceOf(1), k);
    Sizes dims(type.dims->begin() + by.rank(), type.dims->end());
    dims.insert(dims.begin(), op.sizes().RowsOf(part));
    RowType piece = MakeRows(0, part, dims, type.exponent);
    piece.own = type.own;
    types.push_back(piece);
  }
  return types;
}

}  // namespace

void AddPartitionRules(RuleTable* rules) {
  rules->Set({"DynamicStitch", "ParallelDynamicStitch"}, &Stitch);
  rules->Set({"DynamicPartition"}, &Partition);
}

}  // namespace tensorbow
