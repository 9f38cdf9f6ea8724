#include "cc/graph/op_kinds.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

}  // namespace

bool IsVariableOp(absl::string_view op) {
  return op == "VarHandleOp" || op == "VariableV2" || op == "Variable";
}

bool OnlyReadsResource(absl::string_view op) {
  static const auto* const readers = new NameSet(
      {"ReadVariableOp", "_ReadVariablesOp", "ReadVariableXlaSplitND", "ResourceGather",
       "ResourceGatherNd", "VarIsInitializedOp", "VariableShape",
       "IsResourceHandleRefCounting", "MakeWeakResourceHandle", "DisableCopyOnRead"});
  return readers->contains(op) || IsDatasetOp(op) || absl::StrContains(op, "Iterator");
}

bool KeepsResource(absl::string_view op) {
  return IsDatasetOp(op) || absl::StrContains(op, "Iterator") ||
         op == "MakeWeakResourceHandle";
}

bool WritesInput(absl::string_view op, const tf::OpDef::ArgDef& input) {
  if (input.is_ref()) return op != "IsVariableInitialized";
  return input.type() == tf::DT_RESOURCE && !OnlyReadsResource(op);
}

OptimiserKind OptimiserKindOf(absl::string_view op) {
  absl::ConsumePrefix(&op, "Resource");
  absl::ConsumePrefix(&op, "Sparse");
  if (!absl::StartsWith(op, "Apply")) return OptimiserKind::kNone;
  if (absl::StrContains(op, "GradientDescent")) return OptimiserKind::kGradientDescent;
  return OptimiserKind::kOther;
}

bool IsAccumulatingOp(absl::string_view op) {
  if (absl::StrContains(op, "ScatterUpdate") ||
      absl::StrContains(op, "ScatterNdUpdate")) {
    return false;
  }
  return absl::StrContains(op, "Scatter") || absl::StartsWith(op, "AssignAdd") ||
         absl::StartsWith(op, "AssignSub");
}

bool IsGeneratorOp(absl::string_view op) {
  return op == "RngSkip" || op == "RngReadAndSkip" ||
         absl::StartsWith(op, "StatefulUniform") ||
         absl::StartsWith(op, "StatefulStandardNormal") ||
         absl::StartsWith(op, "StatefulTruncatedNormal") ||
         op == "StatefulRandomBinomial";
}

bool MayBlock(absl::string_view op) {
  return absl::StrContains(op, "Enqueue") || absl::StrContains(op, "Dequeue") ||
         absl::StartsWith(op, "Barrier") || op == "Stage" || op == "StagePeek" ||
         absl::StartsWith(op, "Unstage") || absl::StrContains(op, "MapStage") ||
         absl::StrContains(op, "MapUnstage") || absl::StrContains(op, "MapPeek") ||
         absl::StrContains(op, "TakeGradient") || absl::StrContains(op, "PyFunc") ||
         absl::StartsWith(op, "ReaderRead") || absl::StartsWith(op, "MutexLock");
}

bool TakesData(absl::string_view op) {
  return absl::StartsWith(op, "IteratorGetNext") || absl::StrContains(op, "Dequeue") ||
         op == "StagePeek" || absl::StartsWith(op, "Unstage") ||
         absl::StrContains(op, "MapUnstage") || absl::StrContains(op, "MapPeek") ||
         absl::StartsWith(op, "BarrierTakeMany") || absl::StartsWith(op, "ReaderRead");
}

bool PutsElement(absl::string_view op) {
  return absl::StrContains(op, "Enqueue") || op == "Stage" || op == "MapStage" ||
         op == "OrderedMapStage" || absl::StartsWith(op, "BarrierInsertMany");
}

bool CallsPython(absl::string_view op) { return op == "PyFunc" || op == "EagerPyFunc"; }

bool OnlyLooksAt(absl::string_view op) {
  return op == "Assert" || op == "Print" || op == "PrintV2" || op == "CheckNumerics" ||
         op == "CheckNumericsV2";
}

bool HasEffects(const tf::OpDef& op) {
  return (op.is_stateful() && !OnlyLooksAt(op.name())) ||
         std::any_of(op.input_arg().begin(), op.input_arg().end(),
                     [](const tf::OpDef::ArgDef& input) { return input.is_ref(); });
}

bool IsDatasetOp(absl::string_view op) { return absl::StrContains(op, "Dataset"); }

std::string WhyCentralOnly(absl::string_view op) {
  if (absl::StrContains(op, "SessionHandle") ||
      absl::StrContains(op, "SessionTensor")) {
    return "it keeps tensors in the session (tensor handles)";
  }
  if (absl::StartsWith(op, "Collective")) return "it uses collective operations";
  return "";
}

Forwards ForwardsOf(absl::string_view op) {
  static const auto* const first =
      new NameSet({"Identity", "RefIdentity", "Enter", "RefEnter", "Exit", "RefExit",
                   "NextIteration", "RefNextIteration", "Switch", "RefSwitch",
                   "DebugGradientRefIdentity", "DebugGradientIdentity", "_EagerConst",
                   "StopGradient", "PreventGradient", "Snapshot"});
  static const auto* const all =
      new NameSet({"Merge", "RefMerge", "IdentityN", "RefSelect"});
  if (first->contains(op)) return Forwards::kFirstInput;
  if (all->contains(op)) return Forwards::kAllInputs;
  return Forwards::kNothing;
}

bool HandsReferenceOn(const tf::OpDef& op) {
  return op.input_arg_size() > 0 && op.input_arg(0).is_ref() &&
         op.output_arg_size() > 0 && op.output_arg(0).is_ref();
}

bool HasSharedKernel(const tf::NodeDef& node, const tf::OpDef& op) {
  return op.is_stateful() && !IsVariableOp(node.op()) &&
         node.attr().contains("container") && node.attr().contains("shared_name");
}

bool KeepsRandomState(const tf::NodeDef& node, const tf::OpDef& op) {
  return op.is_stateful() && node.op() != "TensorBowReserveRandom" &&
         !HasSharedKernel(node, op) && node.attr().contains("seed") &&
         node.attr().contains("seed2");
}

}  // namespace tensorbow
