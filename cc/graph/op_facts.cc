#include "cc/graph/op_facts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

enum Fact : uint32_t {
  kCreatesVariable = 1u << 0,
  kOnlyReads = 1u << 1,
  kKeeps = 1u << 2,
  kAccumulates = 1u << 3,
  kReplaces = 1u << 4,  // an exception from kAccumulates
  kGenerates = 1u << 5,
  kBlocks = 1u << 6,
  kTakes = 1u << 7,
  kEmpties = 1u << 8,
  kPuts = 1u << 9,
  kDataset = 1u << 10,
  kIterator = 1u << 11,
  kPython = 1u << 12,
  kChecks = 1u << 13,
  kBranches = 1u << 14,
  kHandsOn = 1u << 15,
  kHarmless = 1u << 16,
  kDraws = 1u << 17,
  kForwardsFirst = 1u << 18,
  kForwardsAll = 1u << 19,
  kDescends = 1u << 20,
  kOptimises = 1u << 21,
  kSparse = 1u << 22,
  kScatters = 1u << 23,
  kFusedAdam = 1u << 24,
  kHandles = 1u << 25,
  kCollective = 1u << 26,
  kGathered = 1u << 27,
};

// A row of the table: an op, or a family of ops, in whose name each * stands for any
// text. An op has the facts of all matching rows.
struct Row {
  const char* ops;
  uint32_t facts;
};

constexpr Row kTable[] = {
    // Variables.
    {"VarHandleOp", kCreatesVariable},
    {"Variable", kCreatesVariable},
    {"VariableV2", kCreatesVariable},
    {"ReadVariableOp", kOnlyReads},
    {"_ReadVariablesOp", kOnlyReads},
    {"ReadVariableXlaSplitND", kOnlyReads},
    {"ResourceGather", kOnlyReads},
    {"ResourceGatherNd", kOnlyReads},
    {"VarIsInitializedOp", kOnlyReads},
    {"VariableShape", kOnlyReads},
    {"IsResourceHandleRefCounting", kOnlyReads},
    {"MakeWeakResourceHandle", kOnlyReads | kKeeps},
    {"DisableCopyOnRead", kOnlyReads},
    {"AssignAdd*", kAccumulates},
    {"AssignSub*", kAccumulates},
    {"*Scatter*", kAccumulates},
    {"*ScatterUpdate*", kReplaces},
    {"*ScatterNdUpdate*", kReplaces},
    {"ScatterAdd", kScatters},
    {"ScatterSub", kScatters},
    {"ResourceScatterAdd", kScatters},
    {"ResourceScatterSub", kScatters},
    // Optimisers.
    {"Apply*", kOptimises},
    {"SparseApply*", kOptimises},
    {"ResourceApply*", kOptimises},
    {"ResourceSparseApply*", kOptimises},
    {"*Apply*GradientDescent*", kDescends},
    {"*SparseApply*", kSparse},
    {"TensorBowSparseApplyAdam", kFusedAdam},
    {"TensorBowResourceSparseApplyAdam", kFusedAdam},
    // Values passed on.
    {"Identity", kForwardsFirst},
    {"RefIdentity", kForwardsFirst},
    {"Enter", kForwardsFirst},
    {"RefEnter", kForwardsFirst},
    {"Exit", kForwardsFirst},
    {"RefExit", kForwardsFirst},
    {"NextIteration", kForwardsFirst},
    {"RefNextIteration", kForwardsFirst},
    {"Switch", kForwardsFirst},
    {"RefSwitch", kForwardsFirst},
    {"DebugGradientIdentity", kForwardsFirst},
    {"DebugGradientRefIdentity", kForwardsFirst},
    {"_EagerConst", kForwardsFirst},
    {"StopGradient", kForwardsFirst},
    {"PreventGradient", kForwardsFirst},
    {"Snapshot", kForwardsFirst},
    {"Merge", kForwardsAll},
    {"RefMerge", kForwardsAll},
    {"IdentityN", kForwardsAll},
    {"RefSelect", kForwardsAll},
    // Pipelines.
    {"*Dataset*", kOnlyReads | kKeeps | kDataset},
    {"*Iterator*", kOnlyReads | kKeeps | kIterator},
    {"IteratorGetNext*", kTakes},
    // Queues, barriers, staging areas, accumulators, readers.
    {"*Enqueue*", kBlocks | kPuts},
    {"*Dequeue*", kBlocks | kTakes | kEmpties},
    {"Barrier*", kBlocks},
    {"BarrierInsertMany*", kPuts},
    {"BarrierTakeMany*", kTakes | kEmpties},
    {"Stage", kBlocks | kPuts},
    {"StagePeek", kBlocks | kTakes},
    {"Unstage*", kBlocks | kTakes | kEmpties},
    {"*MapStage*", kBlocks},
    {"MapStage", kPuts},
    {"OrderedMapStage", kPuts},
    {"*MapUnstage*", kBlocks | kTakes | kEmpties},
    {"*MapPeek*", kBlocks | kTakes},
    {"*TakeGradient*", kBlocks | kGathered},
    {"ReaderRead*", kBlocks | kTakes},
    {"MutexLock*", kBlocks},
    // Functions.
    {"*PyFunc*", kBlocks},
    {"PyFunc", kPython},
    {"EagerPyFunc", kPython},
    {"PyFuncStateless", kHarmless},  // pure by its declaration
    {"*If*", kBranches},
    {"Case", kBranches},
    {"StatelessCase", kBranches},
    // Ops executed for their effect.
    {"Assert", kChecks | kHarmless},
    {"Print", kChecks | kHandsOn},
    {"PrintV2", kChecks | kHarmless},
    {"CheckNumerics", kChecks | kHandsOn},
    {"CheckNumericsV2", kChecks | kHandsOn},
    {"TensorBowReduceGradient", kHandsOn},
    {"TensorArray*", kHarmless},
    {"Stack*", kHarmless},
    {"LookupTableFind*", kHarmless},
    {"LookupTableSize*", kHarmless},
    {"LookupTableExport*", kHarmless},
    {"*SessionHandle*", kHandles},
    {"*SessionTensor*", kHandles},
    {"Collective*", kCollective},
    // Random numbers; the ops of kDraws belong here, too.
    {"RandomShuffle", kHandsOn},
    {"StatelessShuffle", kHandsOn},
    {"*CandidateSampler", kDraws},
    {"RngSkip", kGenerates},
    {"RngReadAndSkip", kGenerates},
    {"StatefulUniform*", kGenerates},
    {"StatefulStandardNormal*", kGenerates},
    {"StatefulTruncatedNormal*", kGenerates},
    {"StatefulRandomBinomial", kGenerates},
};

// The typical uniform number is exact in all floating-point types, and above the rate
// of any common dropout.
constexpr double kUniform = 0.9375, kNormal = 0.5, kInteger = 7;

struct DrawRow {
  const char* op;
  Draw draw;
};

constexpr DrawRow kDrawTable[] = {
    {"RandomUniform", {0, -1, kUniform, "dtype", "T"}},
    {"RandomStandardNormal", {0, -1, kNormal, "dtype", "T"}},
    {"TruncatedNormal", {0, -1, kNormal, "dtype", "T"}},
    {"RandomUniformInt", {0, 1, 0, "Tout", "T"}},
    {"StatelessRandomUniform", {0, -1, kUniform, "dtype", "T"}},
    {"StatelessRandomUniformV2", {0, -1, kUniform, "dtype", "Tshape"}},
    {"StatelessRandomNormal", {0, -1, kNormal, "dtype", "T"}},
    {"StatelessRandomNormalV2", {0, -1, kNormal, "dtype", "Tshape"}},
    {"StatelessTruncatedNormal", {0, -1, kNormal, "dtype", "T"}},
    {"StatelessTruncatedNormalV2", {0, -1, kNormal, "dtype", "Tshape"}},
    {"StatelessRandomUniformInt", {0, 2, 0, "dtype", "T"}},
    {"StatelessRandomUniformIntV2", {0, 4, 0, "dtype", "Tshape"}},
    {"StatelessRandomUniformFullInt", {0, -1, kInteger, "dtype", "T"}},
    {"StatelessRandomUniformFullIntV2", {0, -1, kInteger, "dtype", "Tshape"}},
    {"StatefulUniform", {2, -1, kUniform, "dtype", "shape_dtype"}},
    {"StatefulStandardNormal", {1, -1, kNormal, "dtype", "shape_dtype"}},
    {"StatefulStandardNormalV2", {2, -1, kNormal, "dtype", "shape_dtype"}},
    {"StatefulTruncatedNormal", {2, -1, kNormal, "dtype", "shape_dtype"}},
    {"StatefulUniformInt", {2, 3, 0, "dtype", "shape_dtype"}},
    {"StatefulUniformFullInt", {2, -1, kInteger, "dtype", "shape_dtype"}},
};

// Returns whether the name fits the pattern.
bool Fits(absl::string_view name, absl::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == absl::string_view::npos) return name == pattern;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const absl::string_view rest = pattern.substr(star + 1);
  for (size_t begin = star; begin <= name.size(); ++begin) {
    if (Fits(name.substr(begin), rest)) return true;
  }
  return false;
}

OpFacts Find(absl::string_view op) {
  uint32_t all = 0;
  for (const Row& row : kTable) {
    if (Fits(op, row.ops)) all |= row.facts;
  }
  const auto has = [all](uint32_t fact) { return (all & fact) != 0; };
  OpFacts facts;
  facts.creates_variable = has(kCreatesVariable);
  facts.only_reads_resource = has(kOnlyReads);
  facts.keeps_resource = has(kKeeps);
  facts.accumulates = has(kAccumulates) && !has(kReplaces);
  facts.advances_generator = has(kGenerates);
  if (has(kOptimises)) {
    facts.optimiser =
        has(kDescends) ? OptimiserKind::kGradientDescent : OptimiserKind::kOther;
  }
  if (has(kFusedAdam)) {
    facts.row_update = RowUpdate::kFusedAdam;
  } else if (has(kScatters)) {
    facts.row_update = RowUpdate::kScatterSum;
  } else if (has(kSparse)) {
    facts.row_update = RowUpdate::kOptimiser;
  }
  if (has(kForwardsFirst)) facts.forwards = Forwards::kFirstInput;
  if (has(kForwardsAll)) facts.forwards = Forwards::kAllInputs;
  facts.may_block = has(kBlocks);
  facts.takes_data = has(kTakes);
  facts.empties_store = has(kEmpties);
  facts.puts_data = has(kPuts);
  facts.is_dataset = has(kDataset);
  facts.is_iterator = has(kIterator);
  facts.calls_python = has(kPython);
  facts.only_checks = has(kChecks);
  facts.selects_branch = has(kBranches);
  if (has(kHandsOn)) facts.repetition = Repetition::kHandsInputOn;
  if (has(kHarmless)) facts.repetition = Repetition::kHarmless;
  for (const DrawRow& row : kDrawTable) {
    if (op == row.op) facts.draw = &row.draw;
  }
  facts.draws = has(kDraws) || facts.draw != nullptr;
  if (has(kCollective)) facts.why_central = "it uses collective operations";
  if (has(kHandles)) {
    facts.why_central = "it keeps tensors in the session (tensor handles)";
  }
  if (has(kGathered)) {
    facts.why_central = "it takes gradients that are gathered once for all learners";
  }
  return facts;
}

// A cache of the facts by name.
class FactsByName {
 public:
  const OpFacts& Of(absl::string_view op) {
    {
      absl::ReaderMutexLock lock(&mu_);
      const auto known = facts_.find(op);
      if (known != facts_.end()) return *known->second;
    }
    auto found = std::make_unique<const OpFacts>(Find(op));
    absl::MutexLock lock(&mu_);
    return *facts_.emplace(op, std::move(found)).first->second;
  }

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::unique_ptr<const OpFacts>> facts_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace

const OpFacts& FactsOf(absl::string_view op) {
  static auto* const by_name = new FactsByName;
  return by_name->Of(op);
}

bool WritesInput(absl::string_view op, const tf::OpDef::ArgDef& input) {
  if (input.is_ref()) return op != "IsVariableInitialized";
  return input.type() == tf::DT_RESOURCE && !FactsOf(op).only_reads_resource;
}

absl::string_view ProgramsName(absl::string_view node) {
  return node.substr(0, node.find("/TensorBow."));
}

bool HasEffects(const tf::OpDef& op) {
  return (op.is_stateful() && !FactsOf(op.name()).only_checks) ||
         std::any_of(op.input_arg().begin(), op.input_arg().end(),
                     [](const tf::OpDef::ArgDef& input) { return input.is_ref(); });
}

bool HandsReferenceOn(const tf::OpDef& op) {
  return op.input_arg_size() > 0 && op.input_arg(0).is_ref() &&
         op.output_arg_size() > 0 && op.output_arg(0).is_ref();
}

bool HasSharedKernel(const tf::NodeDef& node, const tf::OpDef& op) {
  return op.is_stateful() && !FactsOf(node.op()).creates_variable &&
         node.attr().contains("container") && node.attr().contains("shared_name");
}

bool KeepsRandomState(const tf::NodeDef& node, const tf::OpDef& op) {
  return op.is_stateful() && node.op() != "TensorBowReserveRandom" &&
         !HasSharedKernel(node, op) && node.attr().contains("seed") &&
         node.attr().contains("seed2");
}

}  // namespace tensorbow
