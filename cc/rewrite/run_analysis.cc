#include "cc/rewrite/run_analysis.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

// ---------------------------------------------------------------- kinds of ops

bool IsOptimiserOp(absl::string_view op) {
  return absl::StartsWith(op, "Apply") || absl::StartsWith(op, "ResourceApply") ||
         absl::StartsWith(op, "SparseApply") ||
         absl::StartsWith(op, "ResourceSparseApply");
}

bool IsPlainGradientDescent(absl::string_view op) {
  return absl::StrContains(op, "GradientDescent");
}

// Ops that update a variable by what they read of it: v ← f(v, operand).
bool IsAccumulatingOp(absl::string_view op) {
  if (absl::StrContains(op, "ScatterUpdate") ||
      absl::StrContains(op, "ScatterNdUpdate")) {
    return false;
  }
  return absl::StrContains(op, "Scatter") || absl::StartsWith(op, "AssignAdd") ||
         absl::StartsWith(op, "AssignSub");
}

// Ops that pass a variable (or its value) on unchanged, from which inputs.
enum class Forwards { kNothing, kFirstInput, kAllInputs };
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

std::string WhyCentralOnly(absl::string_view op) {
  if (absl::StrContains(op, "SessionHandle") ||
      absl::StrContains(op, "SessionTensor")) {
    return "it keeps tensors in the session (tensor handles)";
  }
  if (absl::StartsWith(op, "Collective")) return "it uses collective operations";
  return "";
}

// ------------------------------------------------------------ a body of nodes

// What nodes do with one root: a variable of the graph, an argument of a function.
struct Effects {
  bool read = false;
  bool written = false;
  bool optimised = false;           // by an optimiser op
  bool accumulated = false;         // by an accumulating op
  bool replaced = false;            // by any other write
  bool replaced_by_itself = false;  // … whose value depends on the root
  bool generator = false;
};

struct Summary {
  std::vector<Effects> roots;
  bool may_block = false;
  bool reads_iterator = false;
  bool varies = false;
  std::string central_only;
};

// The functions that a node calls, and from which of its inputs their arguments come.
struct Call {
  std::string function;
  int first_argument;
};
std::vector<Call> CallsOf(const tf::NodeDef& node,
                          const tf::FunctionLibraryDefinition& functions) {
  std::vector<Call> calls;
  if (functions.Contains(node.op())) calls.push_back({node.op(), 0});
  const bool branches = absl::StrContains(node.op(), "If") || node.op() == "Case" ||
                        node.op() == "StatelessCase";
  for (const auto& [name, value] : node.attr()) {
    if (absl::StartsWith(name, "_")) continue;
    if (value.has_func()) calls.push_back({value.func().name(), branches ? 1 : 0});
    for (const tf::NameAttrList& function : value.list().func()) {
      calls.push_back({function.name(), branches ? 1 : 0});
    }
  }
  return calls;
}

// The input tensors of a node with the op's declaration of each.
struct Input {
  absl::string_view producer;
  const tf::OpDef::ArgDef* declaration;
};

class FunctionSummaries;

// Nodes with names, seen as a dataflow graph; the roots are what is tracked.
class Body {
 public:
  using IsFed = std::function<bool(absl::string_view tensor)>;

  Body(std::vector<const tf::NodeDef*> nodes,
       const tf::FunctionLibraryDefinition& functions, IsFed is_fed)
      : nodes_(std::move(nodes)), functions_(functions), is_fed_(std::move(is_fed)) {
    for (const tf::NodeDef* node : nodes_) by_name_[node->name()] = node;
  }

  void AddRoot(absl::string_view name) {
    const int root = static_cast<int>(root_names_.size());
    root_names_.push_back(name);
    roots_[name] = root;
  }
  int num_roots() const { return static_cast<int>(root_names_.size()); }
  const std::vector<const tf::NodeDef*>& nodes() const { return nodes_; }

  std::vector<Input> Inputs(const tf::NodeDef& node) const {
    const tf::OpDef* op = nullptr;
    std::vector<Input> inputs;
    if (!functions_.LookUpOpDef(node.op(), &op).ok()) return inputs;
    int next = 0;
    for (const tf::OpDef::ArgDef& declaration : op->input_arg()) {
      int count = 1;
      if (!declaration.number_attr().empty()) {
        count = node.attr().at(declaration.number_attr()).i();
      } else if (!declaration.type_list_attr().empty()) {
        count = node.attr().at(declaration.type_list_attr()).list().type_size();
      }
      for (; count > 0 && next < node.input_size(); --count, ++next) {
        const std::string& tensor = node.input(next);
        absl::string_view producer =
            absl::string_view(tensor).substr(0, tensor.find(':'));
        if (is_fed_(tensor)) producer = "";
        inputs.push_back({producer, &declaration});
      }
    }
    return inputs;
  }

  // The roots that `name` hands on, unchanged, to its consumers.
  const std::set<int>& Traced(absl::string_view name) {
    static const auto* const none = new std::set<int>;
    const auto known = traced_.find(name);
    if (known != traced_.end()) return known->second;
    std::set<int>& roots = traced_[name];  // empty while under way: ends cycles
    const auto root = roots_.find(name);
    if (root != roots_.end()) roots.insert(root->second);
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) return roots;
    const tf::NodeDef& node = *it->second;
    std::set<int> found = roots;
    const std::vector<Input> inputs = Inputs(node);
    Forwards forwards = ForwardsOf(node.op());
    if (forwards == Forwards::kNothing && !inputs.empty() &&
        inputs[0].declaration->is_ref()) {
      // Assign and the like hand on the reference they wrote to.
      const tf::OpDef* op = nullptr;
      if (functions_.LookUpOpDef(node.op(), &op).ok() && op->output_arg_size() > 0 &&
          op->output_arg(0).is_ref()) {
        forwards = Forwards::kFirstInput;
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (forwards == Forwards::kNothing) break;
      if (forwards == Forwards::kFirstInput && i > 0) break;
      const std::set<int>& more =
          inputs[i].producer.empty() ? *none : Traced(inputs[i].producer);
      found.insert(more.begin(), more.end());
    }
    return traced_[name] = std::move(found);
  }

  // Whether the value of `name` depends on reading one of the roots that satisfy
  // `wanted`.
  bool DependsOn(absl::string_view name, const std::function<bool(int)>& wanted) {
    NameSet seen;
    std::vector<absl::string_view> pending{name};
    while (!pending.empty()) {
      const absl::string_view current = pending.back();
      pending.pop_back();
      if (current.empty() || !seen.insert(current).second) continue;
      for (int root : Traced(current)) {
        if (wanted(root)) return true;
      }
      const auto it = by_name_.find(current);
      if (it == by_name_.end()) continue;
      for (const Input& input : Inputs(*it->second)) pending.push_back(input.producer);
      PushWrittenBefore(*it->second, &pending);
    }
    return false;
  }

  absl::Status Summarise(FunctionSummaries* callees, Summary* summary);

 private:
  // A read that waits for a write of the same variable gets what was written: adds
  // what that depends on. (An optimiser's slot is updated, then read.)
  void PushWrittenBefore(const tf::NodeDef& read,
                         std::vector<absl::string_view>* pending) {
    if (!OnlyReadsResource(read.op())) return;
    const std::vector<Input> inputs = Inputs(read);
    if (inputs.empty()) return;
    const std::set<int> variables = Traced(inputs[0].producer);
    for (const std::string& input : read.input()) {
      const TensorName control = ParseTensor(input);
      const auto it = by_name_.find(control.node);
      if (!control.control || it == by_name_.end()) continue;
      const tf::NodeDef& write = *it->second;
      if (OnlyReadsResource(write.op())) continue;
      bool same = false;
      std::vector<absl::string_view> values;
      for (const Input& operand : Inputs(write)) {
        const std::set<int>& written = Traced(operand.producer);
        if (written.empty()) values.push_back(operand.producer);
        for (int root : written) same |= variables.count(root) > 0;
      }
      if (same) pending->insert(pending->end(), values.begin(), values.end());
    }
  }

  const std::vector<const tf::NodeDef*> nodes_;
  const tf::FunctionLibraryDefinition& functions_;
  const IsFed is_fed_;
  absl::flat_hash_map<absl::string_view, const tf::NodeDef*> by_name_;
  std::vector<absl::string_view> root_names_;
  absl::flat_hash_map<absl::string_view, int> roots_;
  std::map<absl::string_view, std::set<int>> traced_;
};

// Summaries of functions by their arguments, each made once.
class FunctionSummaries {
 public:
  explicit FunctionSummaries(const tf::FunctionLibraryDefinition& functions)
      : functions_(functions) {}

  const Summary* Of(const std::string& name) {
    const auto known = summaries_.find(name);
    if (known != summaries_.end()) return known->second.get();
    auto& summary = summaries_[name];
    summary = std::make_unique<Summary>();  // empty while under way: ends recursion
    const auto record = functions_.FindRecord(name);
    if (record == nullptr) return summary.get();
    const tf::FunctionDef& definition = record->fdef();
    std::vector<const tf::NodeDef*> nodes;
    for (const tf::NodeDef& node : definition.node_def()) nodes.push_back(&node);
    Body body(std::move(nodes), functions_, [](absl::string_view) { return false; });
    for (const auto& argument : definition.signature().input_arg()) {
      body.AddRoot(argument.name());
    }
    auto result = std::make_unique<Summary>();
    body.Summarise(this, result.get()).IgnoreError();
    return (summaries_[name] = std::move(result)).get();
  }

 private:
  const tf::FunctionLibraryDefinition& functions_;
  std::map<std::string, std::unique_ptr<Summary>> summaries_;
};

absl::Status Body::Summarise(FunctionSummaries* callees, Summary* summary) {
  summary->roots.resize(num_roots());
  for (const tf::NodeDef* node : nodes_) {
    const std::string& op = node->op();
    summary->may_block |= MayBlock(op);
    summary->reads_iterator |= absl::StartsWith(op, "IteratorGetNext");
    if (summary->central_only.empty()) summary->central_only = WhyCentralOnly(op);
    const tf::OpDef* definition = nullptr;
    if (functions_.LookUpOpDef(op, &definition).ok()) {
      summary->varies |= MayBlock(op) || IsGeneratorOp(op) ||
                         HasSharedKernel(*node, *definition) ||
                         KeepsRandomState(*node, *definition);
    }

    const std::vector<Input> inputs = Inputs(*node);
    const std::vector<Call> calls = CallsOf(*node, functions_);
    for (const Call& call : calls) {
      const Summary* callee = callees->Of(call.function);
      // A data pipeline that waits does so in its own threads.
      if (!absl::StrContains(op, "Dataset")) summary->may_block |= callee->may_block;
      summary->reads_iterator |= callee->reads_iterator;
      summary->varies |= callee->varies;
      if (summary->central_only.empty()) summary->central_only = callee->central_only;
    }

    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].producer.empty()) continue;
      for (int root : Traced(inputs[i].producer)) {
        Effects& effects = summary->roots[root];
        if (ForwardsOf(op) != Forwards::kNothing) {
          effects.read = true;
          continue;
        }
        if (absl::StrContains(op, "Dataset")) {
          effects.read = true;
          continue;
        }
        if (!calls.empty()) {
          for (const Call& call : calls) {
            const Summary* callee = callees->Of(call.function);
            const size_t argument = i - call.first_argument;
            if (argument >= callee->roots.size()) continue;
            const Effects& inside = callee->roots[argument];
            effects.read |= inside.read;
            effects.written |= inside.written;
            effects.optimised |= inside.optimised;
            effects.accumulated |= inside.accumulated;
            effects.replaced |= inside.replaced;
            effects.replaced_by_itself |=
                inside.replaced_by_itself || (inside.replaced && inside.read);
            effects.generator |= inside.generator;
          }
          continue;
        }
        const tf::OpDef::ArgDef& declaration = *inputs[i].declaration;
        const bool writes =
            declaration.is_ref()
                ? op != "IsVariableInitialized"
                : declaration.type() == tf::DT_RESOURCE && !OnlyReadsResource(op);
        if (!writes) {
          effects.read = true;
          continue;
        }
        effects.written = true;
        effects.generator |= IsGeneratorOp(op);
        if (IsOptimiserOp(op)) {
          effects.read = true;
          effects.optimised |= i == 0;
        } else if (IsAccumulatingOp(op)) {
          effects.accumulated = true;
        } else {
          effects.replaced = true;
          for (size_t k = 1; k < inputs.size() && !effects.replaced_by_itself; ++k) {
            effects.replaced_by_itself =
                DependsOn(inputs[k].producer, [root](int r) { return r == root; });
          }
        }
      }
    }
  }
  return absl::OkStatus();
}

// ------------------------------------------------------------- optimisers' inputs

const Input* FindInput(const std::vector<Input>& inputs, absl::string_view name) {
  for (const Input& input : inputs) {
    if (input.declaration->name() == name) return &input;
  }
  return nullptr;
}

// The value of a constant scalar, seen through identities.
std::optional<double> ConstantScalar(const ProgramGraph& graph,
                                     absl::string_view name) {
  const tf::NodeDef* node = graph.Find(name);
  while (node != nullptr && node->op() == "Identity" && node->input_size() > 0) {
    node = graph.Find(ParseTensor(node->input(0)).node);
  }
  if (node == nullptr || node->op() != "Const") return std::nullopt;
  tf::Tensor value;
  if (!value.FromProto(node->attr().at("value").tensor()) || value.NumElements() != 1) {
    return std::nullopt;
  }
  if (value.dtype() == tf::DT_FLOAT) return value.flat<float>()(0);
  if (value.dtype() == tf::DT_DOUBLE) return value.flat<double>()(0);
  return std::nullopt;
}

// What evaluating a tensor by itself would mean.
enum class Evaluation {
  kConstant,   // always the same value: computed from constants alone
  kHarmless,   // from feeds and variables, without side effects
  kForbidden,  // it would change state, wait, or lies inside a loop or a branch
};
Evaluation EvaluationOf(const ProgramGraph& graph, absl::string_view tensor) {
  // Nodes, and inside how many conditionals they lie (v1: between Switch and Merge). A
  // value inside more of them than the tensor may not exist.
  std::set<std::pair<absl::string_view, int>> seen;
  Evaluation evaluation = Evaluation::kConstant;
  std::vector<std::pair<absl::string_view, int>> pending{{ParseTensor(tensor).node, 0}};
  while (!pending.empty()) {
    const auto [current, inside] = pending.back();
    pending.pop_back();
    if (!seen.insert({current, inside}).second) continue;
    const tf::NodeDef* node = graph.Find(current);
    const tf::OpDef* op = nullptr;
    if (node == nullptr || !graph.functions().LookUpOpDef(node->op(), &op).ok() ||
        absl::StrContains(node->op(), "Enter") || MayBlock(node->op())) {
      return Evaluation::kForbidden;
    }
    if (IsVariableOp(node->op()) || node->op() == "ReadVariableOp" ||
        absl::StartsWith(node->op(), "Placeholder")) {
      evaluation = Evaluation::kHarmless;
    } else if (op->is_stateful() ||
               (op->input_arg_size() > 0 && op->input_arg(0).is_ref())) {
      return Evaluation::kForbidden;
    }
    const bool branches = node->op() == "Switch" || node->op() == "RefSwitch";
    const bool joins = node->op() == "Merge" || node->op() == "RefMerge";
    if (branches && inside == 0) return Evaluation::kForbidden;
    for (const std::string& input : node->input()) {
      pending.push_back({ParseTensor(input).node, inside + joins - branches});
    }
  }
  return evaluation;
}

bool SameShape(const tf::NodeDef& a, const tf::NodeDef& b) {
  const auto shape_a = a.attr().find("shape"), shape_b = b.attr().find("shape");
  return shape_a != a.attr().end() && shape_b != b.attr().end() &&
         tf::PartialTensorShape(shape_a->second.shape())
             .IsIdenticalTo(tf::PartialTensorShape(shape_b->second.shape()));
}

bool IsFloating(const tf::NodeDef& variable) {
  const auto dtype = variable.attr().find("dtype");
  return dtype != variable.attr().end() &&
         (tf::DataTypeIsFloating(dtype->second.type()) ||
          tf::DataTypeIsComplex(dtype->second.type()));
}

}  // namespace

bool IsVariableOp(absl::string_view op) {
  return op == "VarHandleOp" || op == "VariableV2" || op == "Variable";
}

bool OnlyReadsResource(absl::string_view op) {
  static const auto* const readers = new NameSet(
      {"ReadVariableOp", "_ReadVariablesOp", "ReadVariableXlaSplitND", "ResourceGather",
       "ResourceGatherNd", "VarIsInitializedOp", "VariableShape",
       "IsResourceHandleRefCounting", "MakeWeakResourceHandle", "DisableCopyOnRead"});
  return readers->contains(op) || absl::StrContains(op, "Dataset") ||
         absl::StrContains(op, "Iterator");
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

std::string VariableReadBy(const ProgramGraph& graph, absl::string_view tensor,
                           std::vector<std::string>* effects) {
  std::vector<std::string> found;
  for (int hops = 0; hops < 16; ++hops) {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* node = graph.Find(name.node);
    if (node == nullptr || name.index != 0) return "";
    for (const std::string& input : node->input()) {
      const TensorName control = ParseTensor(input);
      if (control.control) found.emplace_back(control.node);
    }
    if (IsVariableOp(node->op())) {
      effects->insert(effects->end(), found.begin(), found.end());
      return node->name();
    }
    const tf::OpDef* op = nullptr;
    if (node->input_size() == 0 || ParseTensor(node->input(0)).control ||
        !graph.functions().LookUpOpDef(node->op(), &op).ok()) {
      return "";
    }
    const bool hands_on = op->input_arg(0).is_ref() && op->output_arg_size() == 1 &&
                          op->output_arg(0).is_ref() &&
                          ForwardsOf(node->op()) == Forwards::kNothing;
    if (hands_on) {
      found.push_back(node->name());
    } else if (node->op() != "Identity" && node->op() != "RefIdentity" &&
               node->op() != "ReadVariableOp") {
      return "";
    }
    tensor = node->input(0);
  }
  return "";
}

absl::Status AnalyseRun(const ProgramGraph& graph, const RunSpec& spec,
                        const absl::flat_hash_set<std::string>& trainable,
                        RunAnalysis* analysis) {
  *analysis = RunAnalysis();
  std::vector<const tf::NodeDef*> nodes;
  TF_RETURN_IF_ERROR(graph.Needed(spec, &nodes));

  absl::flat_hash_set<std::string> fed;
  for (const std::string& feed : spec.feeds) {
    const TensorName tensor = ParseTensor(feed);
    fed.insert(absl::StrCat(tensor.node, ":", tensor.index));
  }
  Body body(nodes, graph.functions(), [&fed](absl::string_view tensor) {
    if (fed.empty()) return false;
    const TensorName name = ParseTensor(tensor);
    return !name.control && fed.contains(absl::StrCat(name.node, ":", name.index));
  });
  std::vector<const tf::NodeDef*> variables;
  std::set<std::string> devices;
  for (const tf::NodeDef* node : nodes) {
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(graph.functions().LookUpOpDef(node->op(), &op));
    if (IsVariableOp(node->op())) {
      variables.push_back(node);
      body.AddRoot(node->name());
    } else if (HasSharedKernel(*node, *op)) {
      analysis->shared_kernels.push_back(node->name());
    } else if (KeepsRandomState(*node, *op)) {
      analysis->random_kernels.push_back(node->name());
    }
    tf::DeviceNameUtils::ParsedName device;
    if (!node->device().empty() &&
        tf::DeviceNameUtils::ParseFullName(node->device(), &device) &&
        device.has_type && device.has_id) {
      devices.insert(absl::StrCat("/", device.type, ":", device.id));
    }
  }
  analysis->devices.assign(devices.begin(), devices.end());

  Summary summary;
  FunctionSummaries callees(graph.functions());
  TF_RETURN_IF_ERROR(body.Summarise(&callees, &summary));
  analysis->may_block = summary.may_block;
  analysis->reads_iterator = summary.reads_iterator;
  analysis->central_only = summary.central_only;

  auto is_trainable = [&](int root) {
    return summary.roots[root].optimised || trainable.contains(variables[root]->name());
  };

  // Learning or not?
  bool learning = false;
  bool writing = false;
  bool optimised = false;
  for (size_t root = 0; root < variables.size(); ++root) {
    const Effects& effects = summary.roots[root];
    writing |= effects.written;
    optimised |= effects.optimised;
    learning |= effects.replaced_by_itself && is_trainable(root);
  }
  learning |= optimised;
  analysis->trains_alike = optimised && spec.feeds.empty() && !summary.varies;
  auto operands_depend_on = [&](const tf::NodeDef& node,
                                const std::function<bool(int)>& wanted) {
    const std::vector<Input> inputs = body.Inputs(node);
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (body.DependsOn(inputs[i].producer, wanted)) return true;
    }
    return false;
  };
  auto written_by = [&](const tf::NodeDef& node) {
    const std::vector<Input> inputs = body.Inputs(node);
    return inputs.empty() ? std::set<int>() : body.Traced(inputs[0].producer);
  };
  for (const tf::NodeDef* node : nodes) {
    if (learning) break;
    if (IsAccumulatingOp(node->op())) {
      const std::set<int> written = written_by(*node);
      learning = std::any_of(written.begin(), written.end(), is_trainable) &&
                 operands_depend_on(*node, is_trainable);
    } else if (!CallsOf(*node, graph.functions()).empty()) {
      // Inside a function it is enough that trainable variables are accumulated into,
      // and read there or on the way to an argument.
      bool accumulated = false, read = false;
      for (const Input& input : body.Inputs(*node)) {
        const std::set<int>& variable = body.Traced(input.producer);
        for (int root : variable) {
          if (!is_trainable(root)) continue;
          accumulated |= summary.roots[root].accumulated;
          read |= summary.roots[root].read;
        }
        read |= variable.empty() && body.DependsOn(input.producer, is_trainable);
      }
      learning = accumulated && read;
    }
  }
  analysis->kind = learning  ? RunAnalysis::Kind::kLearning
                   : writing ? RunAnalysis::Kind::kWrite
                             : RunAnalysis::Kind::kRead;

  for (size_t root = 0; root < variables.size(); ++root) {
    const Effects& effects = summary.roots[root];
    VariableUse& use = analysis->variables[variables[root]->name()];
    use.node = variables[root];
    use.written = effects.written;
    use.generator = effects.generator;
    use.trained = learning && effects.written && is_trainable(root) &&
                  IsFloating(*variables[root]);
  }
  if (!learning) return absl::OkStatus();

  // What the optimisers are.
  std::set<std::string> rates;
  for (const tf::NodeDef* node : nodes) {
    const std::vector<Input> inputs = body.Inputs(*node);
    if (IsOptimiserOp(node->op()) && !written_by(*node).empty()) {
      analysis->plain_gradient_descent &= IsPlainGradientDescent(node->op());
      const Input* rate = FindInput(inputs, "lr");
      if (rate == nullptr) rate = FindInput(inputs, "alpha");
      if (rate != nullptr) {
        const std::string& tensor = node->input(rate - inputs.data());
        const TensorName name = ParseTensor(tensor);
        if (EvaluationOf(graph, tensor) == Evaluation::kHarmless) {
          rates.insert(absl::StrCat(name.node, ":", name.index));
        }
      }
      if (const Input* momentum = FindInput(inputs, "momentum")) {
        analysis->optimiser_momentum =
            std::max(analysis->optimiser_momentum,
                     ConstantScalar(graph, momentum->producer).value_or(0));
      }
    } else if (!IsOptimiserOp(node->op())) {
      // A hand-written update has momentum if it reads a slot: a variable of the
      // same shape, not trainable, that the run writes too.
      for (int root : written_by(*node)) {
        if (!analysis->variables[variables[root]->name()].trained) continue;
        if (!analysis->plain_gradient_descent) break;
        analysis->plain_gradient_descent = !operands_depend_on(*node, [&](int slot) {
          return summary.roots[slot].written && !is_trainable(slot) &&
                 IsFloating(*variables[slot]) &&
                 SameShape(*variables[slot], *variables[root]);
        });
      }
    }
  }
  analysis->learning_rates.assign(rates.begin(), rates.end());
  return absl::OkStatus();
}

}  // namespace tensorbow
