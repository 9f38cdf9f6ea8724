// Variables and writes to them; data, random numbers, summaries.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

using Need = RowNeed::Kind;

// Returns whether a draw is a function of its seed. A learner's own generator is not.
bool IsFunctionOfSeed(const OpView& op) {
  return absl::StartsWith(op.op(), "Stateless") && !op.FollowsFromGenerator();
}

// Types draws. Rows draw their own numbers, as good as the whole's; others are drawn
// once.
Types Random(OpView& op, Types in) {
  if (!in[0].numbers.has_value()) {
    return {op.UnknownNumbers(in[0], "draws random numbers")};
  }
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].is(RowKind::kRows))
      return {op.Unknown("draws random numbers with parameters for each row")};
    in[i] = op.Flat(static_cast<int>(i), in[i]);
    if (in[i].unknown()) return {in[i]};
  }
  RowType type = Filled(op, Make(RowKind::kSame), *in[0].numbers, 0);
  const bool of_seed = IsFunctionOfSeed(op);
  if (type.is(RowKind::kRows) && of_seed && op.gathers()) {
    return {op.Unknown("draws random numbers for all rows from one seed")};
  }
  if (type.is(RowKind::kSame) && !of_seed) op.Need(Need::kDraw, -1, type);
  type.uniform = Uniform::kNo;
  if (type.is(RowKind::kRows) && type.part == kFedRows) type.part = kAnyRows;
  return {type};
}

// Types draws from a generator whose state is a variable.
Types RandomOfGenerator(OpView& op, Types in) { return Random(op, {in[2]}); }

// Types the key and the counter for a random op, which handles common draws itself.
Types Skip(OpView& op, Types in) { return {Make(RowKind::kSame)}; }

// Types candidates, with the expected counts of this draw.
Types Candidates(OpView& op, Types in) {
  if (in[0].is(RowKind::kRows) && op.gathers()) {
    return {op.Unknown("draws candidates for all rows together")};
  }
  op.Need(Need::kDraw, -1);
  RowType expected = Make(RowKind::kSame, in[0].dims);
  expected.of_all_rows = in[0].of_all_rows;
  if (in[0].is(RowKind::kRows)) expected = MakeRows(0, in[0].part, in[0].dims);
  return {Make(RowKind::kSame), expected, Make(RowKind::kSame)};
}

// Types draws by the logits of each row, or one draw by logits that are the same.
Types Multinomial(OpView& op, Types in) {
  const RowType logits = op.Flat(0, in[0]);
  if (logits.unknown()) return {logits};
  const bool of_seed = IsFunctionOfSeed(op);
  if (logits.is(RowKind::kRows) && of_seed && op.gathers()) {
    return {op.Unknown("draws random numbers for all rows from one seed")};
  }
  if (!logits.is(RowKind::kRows)) {
    if (!of_seed) op.Need(Need::kDraw, -1, logits);
    return {Make(RowKind::kSame)};
  }
  const bool counted = op.InputShape(1).dims() == 0 && in[1].is(RowKind::kSame);
  if (logits.axis != 0 || !logits.dims.has_value() || !counted) {
    return {op.Unknown("needs rows on its first axis")};
  }
  return {MakeRows(0, logits.part, Sizes{(*logits.dims)[0], kUnknownSize})};
}

Types Shuffle(OpView& op, Types in) {
  if (in[0].is(RowKind::kRows)) return {op.Unknown("reorders the rows")};
  op.Need(Need::kDraw, -1, in[0]);
  return {in[0].WithoutNumbers()};
}

Types RandomOf(OpView& op, Types in) {
  return {op.Unknown("draws random numbers with computed parameters")};
}

Types Placeholder(OpView& op, Types in) {
  if (in.empty()) return {Make(RowKind::kSame)};
  RowType type = in[0].WithoutNumbers();
  type.uniform = Uniform::kNo;
  return {type};
}

Types Variable(OpView& op, Types in) {
  RowType type = Make(op.op() == "VarHandleOp" ? RowKind::kHandle : RowKind::kSame);
  const auto shape = op.Attr("shape", tensorflow::PartialTensorShape());
  if (!shape.unknown_rank()) {
    type.dims.emplace();
    for (int64_t size : shape.dim_sizes()) {
      type.dims->push_back(size >= 0 ? op.sizes().Constant(size) : kUnknownSize);
    }
  }
  type.variable = op.path();
  return {type};
}

Types Read(OpView& op, Types in) {
  if (op.op() == "VariableShape") return {Make(RowKind::kSame)};
  if (op.op() != "ReadVariableOp") return {Make(RowKind::kSame, Sizes{})};
  return {Make(RowKind::kSame, in[0].dims)};
}

Types Data(OpView& op, Types in) {
  return {op.Unknown("takes data or calls Python during the run")};
}

// Rejects the values of an element that is fed in part.
Types Element(OpView& op, Types in) {
  return {op.Unknown("needs a value that the run is not fed")};
}

Types Resource(OpView& op, Types in) {
  RowType handle = Make(RowKind::kHandle);
  handle.variable = op.path();
  return {handle};
}

Types Summary(OpView& op, Types in) {
  in = op.Flats(std::move(in));
  if (const RowType* unknown = FirstUnknown(in)) return {*unknown};
  for (const RowType& type : in) {
    if (type.is(RowKind::kRows)) return {op.Unknown("summarises rows")};
  }
  RowType same = Make(RowKind::kSame);
  same.of_all_rows = true;
  return {same};
}

// The inputs of a write, by their names in the op's definition.
struct WriteInputs {
  int value = -1;
  int indices = -1;
};
WriteInputs InputsOf(const OpView& op, int count) {
  WriteInputs inputs;
  for (int i = 0; i < count; ++i) {
    const std::string name = op.InputName(i);
    if (name == "indices") inputs.indices = i;
    if (inputs.value < 0 && (name == "grad" || name == "delta" || name == "updates" ||
                             name == "value" || name == "gradient")) {
      inputs.value = i;
    }
  }
  return inputs;
}

bool IsSlot(absl::string_view name) {
  for (absl::string_view slot :
       {"var", "accum", "accum_update", "m", "v", "ms", "mom", "mg", "linear", "vhat",
        "gradient_accumulator", "gradient_squared_accumulator"}) {
    if (name == slot) return true;
  }
  return false;
}

// Returns whether these are slices of a variable's gradient: values and indices that
// each learner has of its own.
bool AreSlices(const RowType& values, const RowType& indices) {
  if (indices.is(RowKind::kSame)) return false;
  if (values.is(RowKind::kZero)) return true;
  if (values.is(RowKind::kRows) && indices.is(RowKind::kRows)) return true;
  return values.is(RowKind::kSlotted) && indices.is(RowKind::kSlots);
}

// Returns slices in blocks as rows; untyped if they are no blocks.
RowType OfBlocks(OpView& op, int input, const RowType& values, const RowType& indices) {
  if (!values.is(RowKind::kBlocks) || !indices.is(RowKind::kBlocks)) return {};
  std::optional<int> exponent;
  for (const auto& [at, piece] : values.blocks) {
    const bool indexed =
        std::any_of(indices.blocks.begin(), indices.blocks.end(),
                    [at = at](const auto& block) { return block.first == at; });
    if (!indexed) return {};
    if (piece.is(RowKind::kZero)) continue;
    const int as_sum = piece.exponent + (piece.is(RowKind::kSame) ? 1 : 0);
    if (exponent.has_value() && *exponent != as_sum) {
      return op.Unknown("writes slices of different scales");
    }
    exponent = as_sum;
  }
  return MakeRows(0, kFedRows, std::nullopt, exponent.value_or(1));
}

}  // namespace

bool IsWrite(absl::string_view op) {
  absl::ConsumePrefix(&op, "Resource");
  if (absl::StartsWith(op, "SparseApply") || absl::StartsWith(op, "Apply")) return true;
  for (absl::string_view name : {"Assign", "AssignAdd", "AssignSub", "AssignVariableOp",
                                 "AssignAddVariableOp", "AssignSubVariableOp"}) {
    if (op == name) return true;
  }
  if (!absl::ConsumePrefix(&op, "Scatter")) return false;
  absl::ConsumePrefix(&op, "Nd");
  for (absl::string_view name : {"Add", "Sub", "Update", "Mul", "Div", "Min", "Max"}) {
    if (op == name) return true;
  }
  return false;
}

Types TypeWrite(OpView& op, Types in) {
  const std::string variable = in[0].variable;
  const bool applies = absl::StrContains(op.op(), "Apply");
  const bool trained = applies || op.trains(variable);
  const WriteInputs at = InputsOf(op, static_cast<int>(in.size()));
  Types outputs;
  if (op.num_outputs() > 0) {
    RowType written = in[0].WithoutNumbers();
    written.kind = RowKind::kSame;
    outputs.push_back(written);
  }
  if (const RowType* unknown = FirstUnknown(in)) {
    op.Write(std::max(0, at.value), *unknown, trained, variable);
    return outputs;
  }
  if (at.value < 0) {
    op.Write(0, op.Unknown("writes a variable in an unknown way"), trained, variable);
    return outputs;
  }
  for (int i = 0; applies && i < static_cast<int>(in.size()); ++i) {
    if (i == at.value || i == at.indices || IsSlot(op.InputName(i))) continue;
    const RowType rate = op.Flat(i, in[i]);
    if (!rate.is(RowKind::kSame) && !rate.is(RowKind::kZero) &&
        !rate.is(RowKind::kHandle)) {
      op.Write(i, op.Unknown("has a learning rate for each row"), trained, variable);
      return outputs;
    }
  }
  RowType value = in[at.value];
  if (at.indices >= 0) {
    RowType indices = in[at.indices];
    const RowType blocks = OfBlocks(op, at.value, value, indices);
    bool slices = AreSlices(value, indices);
    if (blocks.typed()) {
      value = blocks;
      slices = true;
    }
    const bool adds = applies || absl::StrContains(op.op(), "Add") ||
                      absl::StrContains(op.op(), "Sub");
    if (value.unknown()) {
      // stays as it is
    } else if (slices && !(trained && adds)) {
      op.Need(Need::kGather, at.value, value);
      value = Make(RowKind::kSame);
      value.of_all_rows = true;
    } else if (slices && op.MayNotBeExecuted()) {
      value = op.Unknown("writes slices of rows in a conditional or a loop");
    } else if (slices) {
      if (!value.is(RowKind::kZero)) value.kind = RowKind::kSum;
    } else {
      const bool shared = (value.is(RowKind::kSame) || value.is(RowKind::kSum) ||
                           value.is(RowKind::kZero)) &&
                          indices.is(RowKind::kSame);
      if (!shared) {
        indices = op.Flat(at.indices, indices);
        value = op.Flat(at.value, value);
      } else if (value.is(RowKind::kSum) && !trained) {
        value = op.Exchanged(at.value, value);
      }
    }
  } else if (value.partial() && !(trained && value.is(RowKind::kSum))) {
    value = op.Exchanged(at.value, value);
  }
  // Learners average gradients in places that all of them reach.
  if (value.is(RowKind::kSum) && op.MayNotBeExecuted()) {
    value = op.Exchanged(at.value, value);
  }
  if (value.is(RowKind::kSlots) || value.is(RowKind::kSlotted) ||
      value.is(RowKind::kSizes)) {
    value = op.Flat(at.value, value);
  }
  if (value.is(RowKind::kSame)) value = op.Rescaled(at.value, value);
  if (value.is(RowKind::kSum) && value.exponent != 1) {
    op.Need(Need::kRescale, at.value, value, value.exponent - 1);
    value.exponent = 1;
  }
  const bool writable = value.is(RowKind::kSame) || value.is(RowKind::kSum) ||
                        value.is(RowKind::kZero) || value.unknown();
  if (!writable) {
    value = op.Unknown(
        absl::StrCat("writes a value for each row: ", Describe(value, op.sizes())));
  }
  op.Write(at.value, value, trained && (applies || value.is(RowKind::kSum)), variable);
  return outputs;
}

void AddDataRules(RuleTable* rules) {
  rules->Set(
      {"ParameterizedTruncatedNormal", "RandomGammaV2", "RandomPoissonV2",
       "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
       "StatelessRandomNormal", "StatelessRandomNormalV2", "StatelessRandomUniform",
       "StatelessRandomUniformFullInt", "StatelessRandomUniformInt",
       "StatelessRandomUniformIntV2", "StatelessRandomUniformV2",
       "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", "TruncatedNormal"},
      &Random);
  rules->Set({"AllCandidateSampler", "FixedUnigramCandidateSampler",
              "LearnedUnigramCandidateSampler", "LogUniformCandidateSampler",
              "ThreadUnsafeUnigramCandidateSampler", "UniformCandidateSampler"},
             &Candidates);
  rules->Set({"Multinomial", "StatelessMultinomial"}, &Multinomial);
  rules->Set({"StatefulRandomBinomial", "StatefulStandardNormalV2",
              "StatefulTruncatedNormal", "StatefulUniform"},
             &RandomOfGenerator);
  rules->Set({"LookupTableSizeV2", "RngReadAndSkip", "RngSkip"}, &Skip);
  rules->Set({"RandomShuffle"}, &Shuffle);
  rules->Set({"RandomGamma", "RandomPoisson"}, &RandomOf);
  rules->Set({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}, &Placeholder);
  rules->Set({"TemporaryVariable", "VarHandleOp", "Variable", "VariableV2"}, &Variable);
  rules->Set(
      {"ReadVariableOp", "VarIsInitializedOp", "VariableShape", "_ReadVariablesOp"},
      &Read);
  rules->Set({"EagerPyFunc", "IteratorGetNext", "IteratorGetNextSync", "PyFunc",
              "PyFuncStateless", "QueueDequeueManyV2", "QueueDequeueUpToV2",
              "QueueDequeueV2", "Unstage"},
             &Data);
  rules->Set({"TensorBowElement"}, &Element);
  rules->Set(
      {"FIFOQueueV2", "HashTableV2", "Iterator", "IteratorV2", "MutableHashTableV2",
       "OneShotIterator", "QueueV2", "RandomShuffleQueueV2", "Stack", "StackV2"},
      &Resource);
  rules->Set({"HistogramSummary", "ImageSummary", "MergeSummary", "ScalarSummary",
              "WriteScalarSummary", "WriteSummary"},
             &Summary);
}

}  // namespace tensorbow
