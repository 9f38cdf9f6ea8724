// Products, convolutions, batch normalisation, and ops on independent rows.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

using Need = RowNeed::Kind;

bool Ranked(const RowType& type, int least) {
  return type.dims.has_value() && type.rank() >= least;
}

Types MatMul(OpView& op, Types in) {
  const std::string a = op.Flag("transpose_a") ? "km" : "mk";
  const std::string b = op.Flag("transpose_b") ? "nk" : "kn";
  std::optional<Sizes> dims;
  if (Ranked(in[0], 2) && Ranked(in[1], 2)) {
    dims = Sizes{(*in[0].dims)[a.find('m')], (*in[1].dims)[b.find('n')]};
  }
  return {Contract(op, {{0, in[0], a}, {1, in[1], b}}, "mn", dims)};
}

Types BatchMatMul(OpView& op, Types in) {
  if (!Ranked(in[0], 2) || !Ranked(in[1], 2)) {
    if (in[0].is(RowKind::kSame) && in[1].is(RowKind::kSame)) {
      return {Contract(op, {{0, in[0], ""}, {1, in[1], ""}}, "")};
    }
    return {op.Unknown("multiplies tensors of unknown rank")};
  }
  static constexpr absl::string_view kBatch = "ABCDEFGH";
  const std::string x = op.Flag("adj_x") ? "km" : "mk";
  const std::string y = op.Flag("adj_y") ? "nk" : "kn";
  const int ranks[] = {in[0].rank() - 2, in[1].rank() - 2};
  const int rank = std::max(ranks[0], ranks[1]);
  const std::string batch(kBatch.substr(0, rank));
  const std::string labels[] = {absl::StrCat(batch.substr(rank - ranks[0]), x),
                                absl::StrCat(batch.substr(rank - ranks[1]), y)};
  Sizes dims;
  for (char label : batch) {
    Size dim = kOneSize;
    for (int k : {1, 0}) {
      const size_t at = labels[k].find(label);
      if (at == std::string::npos) continue;
      const Size size = (*in[k].dims)[at];
      if (size != kOneSize && !op.sizes().HasRows(dim)) dim = size;
    }
    dims.push_back(dim);
  }
  dims.push_back((*in[0].dims)[labels[0].find('m')]);
  dims.push_back((*in[1].dims)[labels[1].find('n')]);
  return {Contract(op, {{0, in[0], labels[0]}, {1, in[1], labels[1]}},
                   absl::StrCat(batch, "mn"), dims)};
}

Types Einsum(OpView& op, Types in) {
  std::string equation = op.Attr<std::string>("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  std::vector<std::string> labels = absl::StrSplit(sides[0], ',');
  std::string out = sides.size() > 1 ? sides[1] : "";
  size_t dots = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].dims.has_value()) {
      if (!in[i].is(RowKind::kRows)) continue;
      return {op.Unknown("multiplies a tensor of unknown rank")};
    }
    if (labels[i].find("...") == std::string::npos) continue;
    dots = std::max(dots, in[i].dims->size() + 3 - labels[i].size());
  }
  const std::string all = std::string("0123456789").substr(0, dots);
  for (size_t i = 0; i < in.size(); ++i) {
    if (labels[i].find("...") == std::string::npos || !in[i].dims.has_value()) continue;
    const size_t own = in[i].dims->size() + 3 - labels[i].size();
    labels[i] = absl::StrReplaceAll(labels[i], {{"...", all.substr(dots - own)}});
  }
  out = absl::StrReplaceAll(out, {{"...", all}});
  std::map<char, Size> sizes;
  for (size_t i = 0; i < in.size(); ++i) {
    for (size_t d = 0; in[i].dims.has_value() && d < in[i].dims->size(); ++d) {
      const auto [known, added] = sizes.emplace(labels[i][d], (*in[i].dims)[d]);
      if (!added && known->second == kOneSize) known->second = (*in[i].dims)[d];
    }
  }
  Sizes dims;
  for (char label : out) {
    const auto known = sizes.find(label);
    dims.push_back(known == sizes.end() ? kUnknownSize : known->second);
  }
  if (in.size() == 1 && in[0].is(RowKind::kRows) &&
      out.find(labels[0][in[0].axis]) == std::string::npos) {
    return {Make(RowKind::kSum, dims, in[0].exponent)};
  }
  std::vector<Factor> factors;
  for (size_t i = 0; i < in.size(); ++i) {
    factors.push_back({static_cast<int>(i), in[i], labels[i]});
  }
  return {Contract(op, std::move(factors), out, dims)};
}

// Returns why rows are not the first axis; untyped if they are.
RowType NotFirst(OpView& op, const Types& types) {
  for (const RowType& type : types) {
    if (type.is(RowKind::kRows) && type.axis != 0) {
      return op.Unknown("needs rows on its first axis");
    }
  }
  return {};
}

// Returns the sizes of an output's rows, of which only the first is known.
std::optional<Sizes> FirstOnly(const OpView& op, int output, const RowType& type) {
  if (!type.dims.has_value() || op.OutputShape(output).unknown_rank()) {
    return std::nullopt;
  }
  Sizes dims(op.OutputShape(output).dims(), kUnknownSize);
  if (!dims.empty()) dims[0] = (*type.dims)[0];
  return dims;
}

Types Convolution(OpView& op, Types in) {
  const bool back = op.op().find("BackpropInput") != absl::string_view::npos;
  const int x = back ? 2 : 0, w = 1;
  const RowType misplaced = NotFirst(op, {in[x]});
  if (misplaced.typed()) return {misplaced};
  if (in[w].is(RowKind::kRows)) return {op.Unknown("has filters that depend on rows")};
  const RowType rows = in[x];
  // The axes between the rows and the channels are treated alike.
  RowType result = Contract(op, {{x, in[x], "nxyzc"}, {w, in[w], "hwdio"}}, "nxyzo");
  if (result.is(RowKind::kRows)) result.dims = FirstOnly(op, 0, rows);
  return {result};
}

Types FilterGradient(OpView& op, Types in) {
  const RowType misplaced = NotFirst(op, {in[0], in[2]});
  if (misplaced.typed()) return {misplaced};
  return {Contract(op, {{0, in[0], "nabci"}, {2, in[2], "ndefo"}}, "xyzio")};
}

// An op that keeps rows if these inputs have them on their first axis.
struct BatchOp {
  std::vector<int> rows;
  int linear = -1;  // the input in which it is linear
  int least_rank = 1;
};
const std::map<absl::string_view, BatchOp>& BatchOps() {
  static const auto* const ops = new std::map<absl::string_view, BatchOp>({
      {"AdjustContrastv2", {{0}}},
      {"AdjustHue", {{0}}},
      {"AdjustSaturation", {{0}}},
      {"AvgPool", {{0}, 0}},
      {"AvgPool3D", {{0}, 0}},
      {"AvgPool3DGrad", {{1}, 1}},
      {"AvgPoolGrad", {{1}, 1}},
      {"Cholesky", {{0}, -1, 3}},
      {"CropAndResize", {{0}}},
      {"DecodeCSV", {{0}}},
      {"DecodeRaw", {{0}}},
      {"DepthToSpace", {{0}, 0}},
      {"Dilation2D", {{0}}},
      {"EncodePng", {{0}}},
      {"ExtractImagePatches", {{0}}},
      {"GRUBlockCell", {{0, 1}}},
      {"HSVToRGB", {{0}}},
      {"ImageProjectiveTransformV2", {{0, 1}}},
      {"ImageProjectiveTransformV3", {{0, 1}}},
      {"InTopK", {{0, 1}}},
      {"InTopKV2", {{0, 1}}},
      {"LRN", {{0}}},
      {"LRNGrad", {{0, 1, 2}, 0}},
      {"LSTMBlockCell", {{0, 1, 2}}},
      {"MatrixBandPart", {{0}, 0, 3}},
      {"MatrixDeterminant", {{0}, -1, 3}},
      {"MatrixDiag", {{0}, 0, 2}},
      {"MatrixDiagPart", {{0}, 0, 3}},
      {"MatrixDiagPartV3", {{0}, 0, 3}},
      {"MatrixDiagV3", {{0}, 0, 2}},
      {"MatrixInverse", {{0}, -1, 3}},
      {"MaxPool", {{0}}},
      {"MaxPool3D", {{0}}},
      {"MaxPool3DGrad", {{0, 1, 2}, 2}},
      {"MaxPoolGrad", {{0, 1, 2}, 2}},
      {"MaxPoolGradGrad", {{0, 1, 2}, 2}},
      {"MaxPoolV2", {{0}}},
      {"QuantizeAndDequantizeV2", {{0}}},
      {"RGBToHSV", {{0}}},
      {"ResizeBicubic", {{0}}},
      {"ResizeBicubicGrad", {{0, 1}, 0}},
      {"ResizeBilinear", {{0}, 0}},
      {"ResizeBilinearGrad", {{0, 1}, 0}},
      {"ResizeNearestNeighbor", {{0}, 0}},
      {"ResizeNearestNeighborGrad", {{0}, 0}},
      {"SoftmaxCrossEntropyWithLogits", {{0, 1}}},
      {"SpaceToDepth", {{0}, 0}},
      {"SparseSoftmaxCrossEntropyWithLogits", {{0, 1}}},
  });
  return *ops;
}

Types Batch(OpView& op, Types in) {
  const BatchOp& batch = BatchOps().at(op.op());
  for (const RowType& type : in) {
    if (type.is(RowKind::kRows) && !Ranked(type, batch.least_rank)) {
      return {op.Unknown("works along the rows")};
    }
  }
  if (batch.linear >= 0 && in[batch.linear].is(RowKind::kZero)) {
    return {Make(RowKind::kZero)};
  }
  Types found;
  int exponent = 0;
  bool of_all_rows = false;
  const Sizes* shape = nullptr;
  for (size_t i = 0; i < in.size(); ++i) {
    const int at = static_cast<int>(i);
    const bool scales = in[i].is(RowKind::kRows) || in[i].is(RowKind::kSame);
    if (in[i].is(RowKind::kSizes)) {
      shape = OpView::Numbers(in[i]);  // the shape of the learner's own rows
      if (shape == nullptr || shape->empty()) {
        return {op.Unknown("has an unknown shape")};
      }
      continue;
    }
    if (at == batch.linear && scales) {
      exponent = in[i].exponent;
    } else {
      in[i] = op.Flat(at, in[i]);
    }
    if (in[i].unknown()) return {in[i]};
    of_all_rows |= in[i].of_all_rows;
    if (!in[i].is(RowKind::kRows)) continue;
    found.push_back(in[i]);
    if (std::count(batch.rows.begin(), batch.rows.end(), at) == 0) {
      return {op.Unknown("has rows where none are expected")};
    }
  }
  if (found.empty() && shape != nullptr) {
    return {op.Unknown("has the shape of rows, but no input with rows")};
  }
  if (found.empty()) {
    RowType same = Make(RowKind::kSame, std::nullopt, exponent);
    same.of_all_rows = of_all_rows;
    return {same};
  }
  const RowType misplaced = NotFirst(op, found);
  if (misplaced.typed()) return {misplaced};
  std::set<Part> parts;
  std::set<Size> counts;
  for (const RowType& type : found) {
    parts.insert(PartAmong(type, found));
    counts.insert((*type.dims)[0]);
  }
  const bool fits = shape == nullptr || (*shape)[0] == (*found[0].dims)[0];
  const std::optional<Size> count = CountOfEqual(counts, op.sizes());
  if (parts.size() > 1 || !count.has_value() || !fits) {
    return {op.Unknown("combines rows with another number of rows")};
  }
  for (int i : batch.rows) {
    if (!in[i].is(RowKind::kSame)) continue;
    const Sizes dims = in[i].dims.value_or(Sizes{kUnknownSize});
    const auto size =
        dims.empty() ? std::optional<int64_t>(1) : op.sizes().Number(dims[0]);
    if (size == 1) continue;
    return {op.Unknown(
        size.has_value() ? absl::StrCat("combines rows with a constant of size ", *size)
                         : "combines rows with another number of rows")};
  }
  const Part part = *parts.begin();
  const Size size = *count;
  if (op.op().find("CrossEntropy") != absl::string_view::npos) {
    const std::optional<Sizes> dims = in[0].is(RowKind::kRows) && in[0].dims.has_value()
                                          ? Sizes{size, (*in[0].dims)[1]}
                                          : Sizes{size, kUnknownSize};
    return {MakeRows(0, part, Sizes{size}), MakeRows(0, part, dims)};
  }
  Types out;
  for (int k = 0; k < op.num_outputs(); ++k) {
    out.push_back(MakeRows(0, part, FirstOnly(op, k, found[0]), exponent));
  }
  return out;
}

Types Repeat(RowType first, const RowType& other, int count) {
  Types types = {std::move(first)};
  for (int k = 1; k < count; ++k) types.push_back(other);
  return types;
}

Types BatchNorm(OpView& op, Types in) {
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = op.Flat(static_cast<int>(i), in[i]);
    if (i > 0 && in[i].is(RowKind::kRows)) {
      return {op.Unknown("has moments that depend on rows")};
    }
  }
  if (const RowType* unknown = FirstUnknown(in)) return {*unknown};
  RowType moments = Make(RowKind::kSame);
  moments.of_all_rows = in[0].of_all_rows || in[0].is(RowKind::kRows);
  if (!in[0].is(RowKind::kRows)) return Repeat(in[0], moments, op.num_outputs());
  const RowType misplaced = NotFirst(op, in);
  if (misplaced.typed()) return {misplaced};
  if (op.Attr<bool>("is_training", true)) op.Need(Need::kMoments, 0, in[0]);
  return Repeat(MakeRows(0, in[0].part, FirstOnly(op, 0, in[0])), moments,
                op.num_outputs());
}

Types BatchNormGrad(OpView& op, Types in) {
  RowType dy = in[0];
  if (dy.is(RowKind::kZero)) return {Make(RowKind::kZero)};
  for (size_t i = 1; i < in.size(); ++i) in[i] = op.Flat(static_cast<int>(i), in[i]);
  if (const RowType* unknown = FirstUnknown(in)) return {*unknown};
  if (!in[1].is(RowKind::kRows) || !dy.is(RowKind::kRows)) {
    return {op.Unknown("has rows in only one of two inputs")};
  }
  const RowType misplaced = NotFirst(op, in);
  if (misplaced.typed()) return {misplaced};
  if (op.Attr<bool>("is_training", true)) {
    dy = op.Rescaled(0, dy, 1);  // as the gradient of a mean over rows
    op.Need(Need::kMoments, 1, dy);
  }
  const RowType sum = Make(RowKind::kSum, std::nullopt, dy.exponent);
  return {MakeRows(0, in[1].part, in[1].dims, dy.exponent), sum, sum,
          Make(RowKind::kSame), Make(RowKind::kSame)};
}

Types CtcLoss(OpView& op, Types in) {
  const RowType x = op.Flat(0, in[0]);
  if (!x.is(RowKind::kRows) || x.axis != 1 || !in[3].is(RowKind::kRows) ||
      !in[1].is(RowKind::kRows) || in[1].own.kind == OwnPlaces::Kind::kNone) {
    return {op.Unknown("needs the rows of a sparse feed")};
  }
  return {MakeRows(0, kFedRows, Sizes{(*x.dims)[1]}), x};
}

Types SparseMatMul(OpView& op, Types in) {
  const RowType &at = in[0], &values = in[1], &shape = in[2];
  RowType& dense = in[3];
  const std::string a = op.Flag("adjoint_a") ? "km" : "mk";
  const std::string b = op.Flag("adjoint_b") ? "nk" : "kn";
  if (at.is(RowKind::kSame) && values.is(RowKind::kSame)) {
    return {
        Contract(op, {{1, values.WithDims(std::nullopt), "z"}, {3, dense, b}}, "mn")};
  }
  const bool entries =
      at.is(RowKind::kRows) && values.is(RowKind::kRows) && values.part == at.part;
  const bool places = at.own.kind != OwnPlaces::Kind::kNone;
  if (entries && !places && shape.is(RowKind::kSame) &&
      (dense.is(RowKind::kSame) || dense.is(RowKind::kSum) ||
       dense.is(RowKind::kZero))) {  // the entries of the sparse matrix are divided
    dense.dims.reset();
    return {Contract(op, {{1, values, "z"}, {3, dense, "y"}}, "")};
  }
  const Sizes* const size = OpView::Numbers(shape);
  if (at.own.kind != OwnPlaces::Kind::kColumn || !entries || size == nullptr ||
      size->size() != 2 || !op.sizes().HasRows((*size)[0])) {
    return {op.Unknown("multiplies a sparse matrix without rows of its own")};
  }
  const RowType rows =
      MakeRows(0, kFedRows, Sizes{(*size)[0], (*size)[1]}, values.exponent);
  std::optional<Sizes> dims;
  if (Ranked(dense, 2)) {
    dims = Sizes{(*size)[a.find('m')], (*dense.dims)[b.find('n')]};
  }
  return {Contract(op, {{1, rows, a}, {3, dense, b}}, "mn", dims)};
}

}  // namespace

void AddProductRules(RuleTable* rules) {
  rules->Set({"MatMul", "SparseMatMul"}, &MatMul);
  rules->Set({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}, &BatchMatMul);
  rules->Set({"Einsum", "XlaEinsum"}, &Einsum);
  rules->Set(
      {"Conv", "Conv2D", "Conv2DBackpropInput", "Conv3D", "Conv3DBackpropInputV2",
       "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput"},
      &Convolution);
  rules->Set({"Conv2DBackpropFilter", "Conv3DBackpropFilterV2",
              "DepthwiseConv2dNativeBackpropFilter"},
             &FilterGradient);
  for (const auto& [name, batch] : BatchOps()) rules->Set({name}, &Batch);
  rules->Set(
      {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx"},
      &BatchNorm);
  rules->Set({"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"},
             &BatchNormGrad);
  rules->Set({"CTCLoss", "CTCLossV2"}, &CtcLoss);
  rules->Set({"SparseTensorDenseMatMul"}, &SparseMatMul);
}

}  // namespace tensorbow
