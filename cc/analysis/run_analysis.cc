#include "cc/analysis/run_analysis.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/optimisers.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Nodes = std::vector<const tf::NodeDef*>;

// Returns the device that the program requests by number, or "".
std::string NumberedDevice(const tf::NodeDef& node) {
  tf::DeviceNameUtils::ParsedName device;
  if (node.device().empty() ||
      !tf::DeviceNameUtils::ParseFullName(node.device(), &device) || !device.has_type ||
      !device.has_id) {
    return "";
  }
  return absl::StrCat("/", device.type, ":", device.id);
}

// Sorts the nodes into variables, kernels with state and devices.
absl::Status SortNodes(const RunGraph& run, Nodes* variables, RunAnalysis* analysis) {
  std::set<std::string> devices;
  for (const tf::NodeDef* node : run.nodes()) {
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(run.functions().LookUpOpDef(node->op(), &op));
    if (FactsOf(node->op()).creates_variable) {
      variables->push_back(node);
    } else if (HasSharedKernel(*node, *op)) {
      analysis->shared_kernels.push_back(node->name());
    } else if (KeepsRandomState(*node, *op)) {
      analysis->keeps_random_state = true;
    }
    const std::string device = NumberedDevice(*node);
    if (!device.empty()) devices.insert(device);
  }
  analysis->devices.assign(devices.begin(), devices.end());
  return absl::OkStatus();
}

bool IsOptimised(const Effects& variable) {
  return variable.optimiser != OptimiserKind::kNone;
}

// Returns whether a node that calls functions learns. Inside a function it suffices
// that trainable variables are accumulated into, and read there or on the way to an
// argument.
bool CallLearns(const tf::NodeDef& node, const RunEffects& effects) {
  bool accumulated = false, read = false;
  for (const Input& input : effects.dataflow->Inputs(node)) {
    const std::set<int>& roots = effects.dataflow->Traced(input.producer);
    for (int root : roots) {
      if (!effects.is_trainable(root)) continue;
      accumulated |= effects.summary.roots[root].accumulated;
      read |= effects.summary.roots[root].read;
    }
    read |= roots.empty() &&
            effects.dataflow->DependsOn(input.producer, effects.is_trainable);
  }
  return accumulated && read;
}

// Returns whether a node adds a value to a trainable variable that depends on trainable
// variables.
bool AccumulationLearns(const tf::NodeDef& node, const RunEffects& effects) {
  const std::set<int> updated = effects.dataflow->FirstRoots(node);
  return std::any_of(updated.begin(), updated.end(), effects.is_trainable) &&
         effects.dataflow->OperandsDependOn(node, effects.is_trainable);
}

// Returns whether the run updates a trainable variable by a value read from trainable
// ones.
bool ReadsWhatItUpdates(const RunGraph& run, const RunEffects& effects) {
  for (size_t root = 0; root < effects.variables.size(); ++root) {
    const Effects& variable = effects.summary.roots[root];
    if (IsOptimised(variable)) return true;
    if (variable.replaced_by_itself && effects.is_trainable(root)) return true;
  }
  for (const tf::NodeDef* node : effects.dataflow->nodes()) {
    if (FactsOf(node->op()).accumulates) {
      if (AccumulationLearns(*node, effects)) return true;
    } else if (!CallsOf(*node, run.functions()).empty()) {
      if (CallLearns(*node, effects)) return true;
    }
  }
  return false;
}

// Returns whether every learner would give all trainable variables the same values:
// there is no optimiser, and they are computed from variables and constants alone.
bool UpdatesAlike(const RunEffects& effects, FunctionSummaries* callees) {
  const std::vector<Effects>& roots = effects.summary.roots;
  if (std::any_of(roots.begin(), roots.end(), IsOptimised)) return false;
  const std::set<int> outside = effects.dataflow->WrittenFromOutside(callees);
  return std::none_of(outside.begin(), outside.end(), effects.is_trainable);
}

RunAnalysis::Kind KindOf(const RunGraph& run, const RunEffects& effects,
                         FunctionSummaries* callees) {
  if (ReadsWhatItUpdates(run, effects) && !UpdatesAlike(effects, callees)) {
    return RunAnalysis::Kind::kLearning;
  }
  const std::vector<Effects>& roots = effects.summary.roots;
  return std::any_of(roots.begin(), roots.end(),
                     [](const Effects& root) { return root.written; })
             ? RunAnalysis::Kind::kWrite
             : RunAnalysis::Kind::kRead;
}

// Marks the variables that datasets of the run refer to.
void MarkCaptured(const RunEffects& effects, RunAnalysis* analysis) {
  for (const tf::NodeDef* node : effects.dataflow->nodes()) {
    if (!FactsOf(node->op()).is_dataset) continue;
    for (const Input& input : effects.dataflow->Inputs(*node)) {
      for (int root : effects.dataflow->Traced(input.producer)) {
        analysis->variables[effects.variables[root]->name()].captured = true;
      }
    }
  }
}

// Records the run's effects on each variable, given its kind in `analysis`.
void DescribeVariables(const RunEffects& effects, RunAnalysis* analysis) {
  const bool learning = analysis->kind == RunAnalysis::Kind::kLearning;
  for (size_t root = 0; root < effects.variables.size(); ++root) {
    const tf::NodeDef* const node = effects.variables[root];
    const Effects& variable = effects.summary.roots[root];
    VariableUse& use = analysis->variables[node->name()];
    use.node = node;
    use.written = variable.written;
    use.generator = variable.generator;
    use.trained =
        learning && variable.written && effects.is_trainable(root) && IsFloating(*node);
  }
}

}  // namespace

absl::Status AnalyseRun(const RunGraph& run,
                        const absl::flat_hash_set<std::string>& trainable,
                        std::optional<RunAnalysis::Kind> forced,
                        RunAnalysis* analysis) {
  *analysis = RunAnalysis();
  Nodes variables;
  TF_RETURN_IF_ERROR(SortNodes(run, &variables, analysis));

  Dataflow dataflow(run.nodes(), run.functions(),
                    [&run](absl::string_view tensor) { return run.IsFed(tensor); });
  for (const tf::NodeDef* variable : variables) dataflow.AddRoot(variable->name());
  FunctionSummaries callees(run.functions());
  const EffectSummary summary = dataflow.Summarise(&callees);
  analysis->may_block = summary.may_block;
  analysis->reads_iterator = summary.reads_iterator;
  analysis->takes_data = summary.takes_data;
  analysis->calls_take_data = summary.calls_take_data;
  analysis->calls_python = summary.calls_python;
  analysis->central_only = summary.central_only;
  const bool optimised =
      std::any_of(summary.roots.begin(), summary.roots.end(), IsOptimised);
  analysis->trains_alike = optimised && run.spec().feeds.empty() && !summary.varies;

  const RunEffects effects{&dataflow, summary, variables, [&](int root) {
                             return IsOptimised(summary.roots[root]) ||
                                    trainable.contains(variables[root]->name());
                           }};
  analysis->kind = forced.has_value() ? *forced : KindOf(run, effects, &callees);
  DescribeVariables(effects, analysis);
  MarkCaptured(effects, analysis);
  if (analysis->kind == RunAnalysis::Kind::kLearning) {
    DescribeOptimisers(run, effects, analysis);
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
