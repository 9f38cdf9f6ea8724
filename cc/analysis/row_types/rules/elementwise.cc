// Ops that work element by element.
#include <map>

#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

// Returns homogeneous functions, f(s·x) = s^d · f(x) for s > 0, with twice the degree
// d.
const std::map<absl::string_view, int>& TwiceDegrees() {
  static const auto* const degrees =
      new std::map<absl::string_view, int>({{"Abs", 2},
                                            {"Inv", -2},
                                            {"LeakyRelu", 2},
                                            {"Reciprocal", -2},
                                            {"Relu", 2},
                                            {"Rsqrt", -1},
                                            {"Sign", 0},
                                            {"Sqrt", 1},
                                            {"Square", 4}});
  return *degrees;
}

Types PassOn(OpView& op, Types in) {
  RowType type = in[0];
  if (op.op() == "EnsureShape" && !type.dims.has_value() && type.is(RowKind::kRows)) {
    return {op.Unknown("has an input of unknown rank")};
  }
  if (op.op() == "EnsureShape" && type.is(RowKind::kRows)) {
    const auto wanted = op.Attr("shape", tf::PartialTensorShape());
    if (type.axis < wanted.dims() && wanted.dim_size(type.axis) >= 0) {
      return {op.Unknown("needs a fixed number of rows")};
    }
  }
  return {type};
}

Types PassAllOn(OpView& op, Types in) { return in; }

Types Linear(OpView& op, Types in) {
  if (in[0].extreme()) return {op.Flat(0, in[0])};
  return {in[0].Plain()};
}

Types ElementwiseOp(OpView& op, Types in) { return {Elementwise(op, std::move(in))}; }

Types Cast(OpView& op, Types in) {
  const tf::DataType from = op.input_type(0), to = op.output_type(0);
  const bool number = tf::DataTypeIsFloating(from) || tf::DataTypeIsInteger(from);
  if ((tf::DataTypeIsFloating(to) && number) ||
      (tf::DataTypeIsInteger(to) && tf::DataTypeIsInteger(from))) {
    return {in[0]};
  }
  const OwnPlaces own = in[0].own;
  RowType type = Elementwise(op, std::move(in));
  if (tf::DataTypeIsInteger(from)) type.own = own;
  return {type};
}

Types Homogeneous(OpView& op, Types in) {
  const int twice = TwiceDegrees().at(op.op());
  const int exponent = in[0].exponent * twice;
  if (in[0].is(RowKind::kZero) && twice > 0) return {in[0]};
  if ((in[0].is(RowKind::kRows) || in[0].is(RowKind::kSame)) && exponent % 2 == 0) {
    RowType type = in[0].Plain();
    type.exponent = exponent / 2;
    return {type};
  }
  return {Elementwise(op, std::move(in))};
}

// Types comparisons, which are homogeneous in both inputs together.
Types Compare(OpView& op, Types in) {
  bool together = true;
  std::optional<int> exponent;
  for (const RowType& type : in) {
    together &= !type.partial();
    if (!type.is(RowKind::kRows) && !type.is(RowKind::kSame)) continue;
    together &= !exponent.has_value() || *exponent == type.exponent;
    exponent = type.exponent;
  }
  if (!together || !exponent.has_value()) return {Elementwise(op, std::move(in))};
  const int degree = op.op() == "SquaredDifference"  ? 2
                     : op.is({"Maximum", "Minimum"}) ? 1
                                                     : 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].is(RowKind::kRows) && !in[i].is(RowKind::kSame)) {
      in[i] = op.Flat(static_cast<int>(i), in[i]);
    }
  }
  return {Spread(op, std::move(in), *exponent * degree)};
}

// Types gradients of activations, which are linear in one input.
template <int k>
Types LinearIn(OpView& op, Types in) {
  if (in[k].is(RowKind::kZero)) return {in[k]};
  bool beside_rows = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (i == k) continue;
    in[i] = op.Flat(static_cast<int>(i), in[i]);
    beside_rows |= in[i].is(RowKind::kRows);
  }
  if (in[k].extreme() || (in[k].is(RowKind::kSum) && beside_rows) ||
      in[k].is(RowKind::kSizes)) {
    in[k] = op.Flat(k, in[k]);
  }
  const bool sum = in[k].is(RowKind::kSum);
  const int exponent = in[k].exponent;
  return {Spread(op, std::move(in), exponent, sum ? RowKind::kSum : RowKind::kSame)};
}

Types AddOp(OpView& op, Types in) { return {Add(op, std::move(in))}; }

Types BiasAdd(OpView& op, Types in) {
  if (in[1].is(RowKind::kRows)) return {op.Unknown("adds a bias that has rows")};
  if (in[0].dims.has_value() && in[1].dims.has_value() &&
      op.Attr<std::string>("data_format", "NHWC") == "NCHW") {
    in[1].dims->resize(in[0].rank() - 1, kOneSize);  // channels come first
  }
  return {Add(op, std::move(in))};
}

Types MultiplyOp(OpView& op, Types in) {
  return {Multiply(op, std::move(in), /*divides=*/false)};
}

Types DivideOp(OpView& op, Types in) {
  return {Multiply(op, std::move(in), /*divides=*/true)};
}

Types Select(OpView& op, Types in) {
  if (in.size() == 3 && in[1].is(RowKind::kZero) && in[2].is(RowKind::kZero)) {
    return {Make(RowKind::kZero)};
  }
  return {Choose(op, std::move(in))};
}

}  // namespace

bool HandsOn(absl::string_view op) {
  static const auto* const ops =
      new std::map<absl::string_view, bool>({{"CheckNumerics", true},
                                             {"CheckNumericsV2", true},
                                             {"DebugGradientIdentity", true},
                                             {"Enter", true},
                                             {"EnsureShape", true},
                                             {"Exit", true},
                                             {"Identity", true},
                                             {"LoopCond", true},
                                             {"NextIteration", true},
                                             {"OptimizationBarrier", true},
                                             {"PreventGradient", true},
                                             {"RefEnter", true},
                                             {"RefExit", true},
                                             {"RefIdentity", true},
                                             {"RefNextIteration", true},
                                             {"Snapshot", true},
                                             {"StopGradient", true}});
  return ops->count(op) > 0;
}

void AddElementwiseRules(RuleTable* rules) {
  rules->Set({"CheckNumerics", "CheckNumericsV2", "DebugGradientIdentity", "Enter",
              "EnsureShape", "Exit", "Identity", "LoopCond", "NextIteration",
              "OptimizationBarrier", "PreventGradient", "Print", "RefEnter", "RefExit",
              "RefIdentity", "RefNextIteration", "Snapshot", "StopGradient", "_Retval"},
             &PassOn);
  rules->Set({"IdentityN"}, &PassAllOn);
  rules->Set({"Conj", "Imag", "Neg", "Real"}, &Linear);
  rules->Set({"Cast"}, &Cast);
  for (const auto& [name, degree] : TwiceDegrees()) rules->Set({name}, &Homogeneous);
  rules->Set({"ApproximateEqual", "Equal", "Greater", "GreaterEqual", "Less",
              "LessEqual", "Maximum", "Minimum", "NotEqual", "SquaredDifference"},
             &Compare);
  rules->Set({"Acos",
              "Acosh",
              "Angle",
              "AsString",
              "Asin",
              "Asinh",
              "Atan",
              "Atan2",
              "Atanh",
              "BesselI0e",
              "BesselI1e",
              "Betainc",
              "Bitcast",
              "BitwiseAnd",
              "BitwiseOr",
              "BitwiseXor",
              "Bucketize",
              "Ceil",
              "ClipByValue",
              "Complex",
              "ComplexAbs",
              "Cos",
              "Cosh",
              "DecodeBase64",
              "DecodeBmp",
              "DecodeGif",
              "DecodeJpeg",
              "DecodePng",
              "Digamma",
              "Elu",
              "EncodeBase64",
              "Erf",
              "Erfc",
              "Erfinv",
              "Exp",
              "Expm1",
              "FakeQuantWithMinMaxArgs",
              "FakeQuantWithMinMaxVars",
              "Floor",
              "FloorDiv",
              "FloorMod",
              "Igamma",
              "Igammac",
              "Invert",
              "IsFinite",
              "IsInf",
              "IsNan",
              "IsVariableInitialized",
              "LeftShift",
              "Lgamma",
              "Log",
              "Log1p",
              "LogicalAnd",
              "LogicalNot",
              "LogicalOr",
              "LookupTableFind",
              "LookupTableFindV2",
              "Mod",
              "Ndtri",
              "NextAfter",
              "Polygamma",
              "PopulationCount",
              "Pow",
              "QuantizeV2",
              "ReadFile",
              "RegexFullMatch",
              "RegexReplace",
              "Relu6",
              "RightShift",
              "Rint",
              "Round",
              "Selu",
              "Sigmoid",
              "Sin",
              "Sinh",
              "Softplus",
              "Softsign",
              "StaticRegexFullMatch",
              "StaticRegexReplace",
              "StringJoin",
              "StringLength",
              "StringLower",
              "StringStrip",
              "StringToHashBucketFast",
              "StringToHashBucketStrong",
              "StringToNumber",
              "StringUpper",
              "Substr",
              "Tan",
              "Tanh",
              "TruncateDiv",
              "TruncateMod",
              "Xlog1py",
              "Xlogy",
              "Zeta"},
             &ElementwiseOp);
  rules->Set({"EluGrad", "LeakyReluGrad", "Relu6Grad", "ReluGrad", "SeluGrad",
              "SoftplusGrad", "SoftsignGrad"},
             &LinearIn<0>);
  rules->Set(
      {"InvGrad", "ReciprocalGrad", "RsqrtGrad", "SigmoidGrad", "SqrtGrad", "TanhGrad"},
      &LinearIn<1>);
  rules->Set({"AccumulateNV2", "Add", "AddN", "AddV2", "Sub"}, &AddOp);
  rules->Set({"BiasAdd", "BiasAddV1"}, &BiasAdd);
  rules->Set({"Mul", "MulNoNan"}, &MultiplyOp);
  rules->Set({"Div", "DivNoNan", "RealDiv", "Xdivy"}, &DivideOp);
  rules->Set({"Select", "SelectV2"}, &Select);
}

}  // namespace tensorbow
