#include "cc/graph/dataflow.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace tf = ::tensorflow;

void Effects::AddCall(const Effects& inside) {
  read |= inside.read;
  written |= inside.written;
  accumulated |= inside.accumulated;
  replaced |= inside.replaced;
  replaced_by_itself |= inside.replaced_by_itself || (inside.replaced && inside.read);
  generator |= inside.generator;
  optimiser = std::max(optimiser, inside.optimiser);
}

std::vector<Call> CallsOf(const tf::NodeDef& node,
                          const tf::FunctionLibraryDefinition& functions) {
  std::vector<Call> calls;
  if (functions.Contains(node.op())) calls.push_back({node.op(), 0});
  const bool branches = FactsOf(node.op()).selects_branch;
  for (const auto& [name, value] : node.attr()) {
    if (absl::StartsWith(name, "_")) continue;
    if (value.has_func()) calls.push_back({value.func().name(), branches ? 1 : 0});
    for (const tf::NameAttrList& function : value.list().func()) {
      calls.push_back({function.name(), branches ? 1 : 0});
    }
  }
  return calls;
}

// ---------------------------------------------------------------------- Dataflow

Dataflow::Dataflow(std::vector<const tf::NodeDef*> nodes,
                   const tf::FunctionLibraryDefinition& functions, IsFed is_fed)
    : nodes_(std::move(nodes)), functions_(functions), is_fed_(std::move(is_fed)) {
  for (const tf::NodeDef* node : nodes_) by_name_[node->name()] = node;
}

void Dataflow::AddRoot(absl::string_view name) {
  const int root = static_cast<int>(roots_.size());
  roots_[name] = root;
}

std::vector<Input> Dataflow::Inputs(const tf::NodeDef& node) const {
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

const std::set<int>& Dataflow::Traced(absl::string_view name) {
  const auto known = traced_.find(name);
  if (known != traced_.end()) return known->second;
  std::set<int>& roots = traced_[name];  // empty until it is finished: ends cycles
  const auto root = roots_.find(name);
  if (root != roots_.end()) roots.insert(root->second);
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return roots;
  const tf::NodeDef& node = *it->second;
  const tf::OpDef* op = nullptr;
  Forwards forwards = FactsOf(node.op()).forwards;
  if (forwards == Forwards::kNothing && functions_.LookUpOpDef(node.op(), &op).ok() &&
      HandsReferenceOn(*op)) {
    forwards = Forwards::kFirstInput;
  }
  if (forwards == Forwards::kNothing) return roots;
  std::set<int> found = roots;
  std::vector<Input> inputs = Inputs(node);
  if (forwards == Forwards::kFirstInput && inputs.size() > 1) inputs.resize(1);
  for (const Input& input : inputs) {
    if (input.producer.empty()) continue;
    const std::set<int>& more = Traced(input.producer);
    found.insert(more.begin(), more.end());
  }
  return traced_[name] = std::move(found);
}

std::set<int> Dataflow::FirstRoots(const tf::NodeDef& node) {
  const std::vector<Input> inputs = Inputs(node);
  return inputs.empty() ? std::set<int>() : Traced(inputs[0].producer);
}

// Returns whether `name` is computed from a producer that satisfies `wanted`. Includes
// `name` itself, and "" for tensors that are fed.
bool Dataflow::Reaches(absl::string_view name,
                       const std::function<bool(absl::string_view producer)>& wanted) {
  absl::flat_hash_set<absl::string_view> seen;
  std::vector<absl::string_view> pending{name};
  while (!pending.empty()) {
    const absl::string_view current = pending.back();
    pending.pop_back();
    if (!seen.insert(current).second) continue;
    if (wanted(current)) return true;
    const auto it = by_name_.find(current);
    if (it == by_name_.end()) continue;
    for (const Input& input : Inputs(*it->second)) pending.push_back(input.producer);
    PushWrittenBefore(*it->second, &pending);
  }
  return false;
}

bool Dataflow::DependsOn(absl::string_view name,
                         const std::function<bool(int)>& wanted) {
  return Reaches(name, [&](absl::string_view producer) {
    const std::set<int>& roots = Traced(producer);
    return std::any_of(roots.begin(), roots.end(), wanted);
  });
}

bool Dataflow::OperandsDependOn(const tf::NodeDef& node,
                                const std::function<bool(int)>& wanted) {
  const std::vector<Input> inputs = Inputs(node);
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (DependsOn(inputs[i].producer, wanted)) return true;
  }
  return false;
}

// Adds the values written to a variable before `read` reads it. A read that waits for a
// write of the same variable depends on everything that the written value depends on.
// (An optimiser's slot is updated, then read.)
void Dataflow::PushWrittenBefore(const tf::NodeDef& read,
                                 std::vector<absl::string_view>* pending) {
  if (!FactsOf(read.op()).only_reads_resource) return;
  const std::vector<Input> inputs = Inputs(read);
  if (inputs.empty()) return;
  const std::set<int> variables = Traced(inputs[0].producer);
  for (const std::string& input : read.input()) {
    const TensorName control = ParseTensor(input);
    const auto it = by_name_.find(control.node);
    if (!control.control || it == by_name_.end()) continue;
    const tf::NodeDef& write = *it->second;
    if (FactsOf(write.op()).only_reads_resource) continue;
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

EffectSummary Dataflow::Summarise(FunctionSummaries* callees) {
  EffectSummary summary;
  summary.roots.resize(roots_.size());
  for (const tf::NodeDef* node : nodes_) {
    NoteOp(*node, callees, &summary);
    const std::vector<Call> calls = CallsOf(*node, functions_);
    const bool only_reads = FactsOf(node->op()).forwards != Forwards::kNothing ||
                            FactsOf(node->op()).is_dataset;
    const std::vector<Input> inputs = Inputs(*node);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].producer.empty()) continue;
      for (int root : Traced(inputs[i].producer)) {
        Effects& effects = summary.roots[root];
        if (only_reads) {
          effects.read = true;
        } else if (calls.empty()) {
          NoteInput(*node, inputs, i, root, &effects);
        } else {
          for (const Call& call : calls) {
            const EffectSummary& callee = callees->Of(call.function);
            const size_t argument = i - call.first_argument;
            if (argument < callee.roots.size()) effects.AddCall(callee.roots[argument]);
          }
        }
      }
    }
  }
  return summary;
}

// Returns whether the node, or a function that it calls, draws random numbers or takes
// data.
bool Dataflow::Varies(const tf::NodeDef& node, FunctionSummaries* callees) const {
  const std::string& op = node.op();
  const tf::OpDef* definition = nullptr;
  if (functions_.LookUpOpDef(op, &definition).ok() &&
      (FactsOf(op).may_block || FactsOf(op).advances_generator ||
       HasSharedKernel(node, *definition) || KeepsRandomState(node, *definition))) {
    return true;
  }
  const std::vector<Call> calls = CallsOf(node, functions_);
  return std::any_of(calls.begin(), calls.end(), [callees](const Call& call) {
    return callees->Of(call.function).varies;
  });
}

// Records the effects of a node apart from those on roots.
void Dataflow::NoteOp(const tf::NodeDef& node, FunctionSummaries* callees,
                      EffectSummary* summary) const {
  const std::string& op = node.op();
  const OpFacts& facts = FactsOf(op);
  summary->may_block |= facts.may_block;
  summary->reads_iterator |= facts.is_iterator && facts.takes_data;
  summary->takes_data |= facts.takes_data;
  summary->calls_python |= facts.calls_python;
  summary->varies |= Varies(node, callees);
  if (summary->central_only.empty() && !facts.why_central.empty()) {
    summary->central_only = absl::StrCat(facts.why_central, ": '", node.name(), "'");
  }
  for (const Call& call : CallsOf(node, functions_)) {
    const EffectSummary& callee = callees->Of(call.function);
    // A data pipeline waits in threads of its own.
    if (!FactsOf(op).is_dataset) {
      summary->may_block |= callee.may_block;
      summary->calls_take_data |= callee.takes_data || callee.calls_take_data;
    }
    summary->reads_iterator |= callee.reads_iterator;
    if (summary->central_only.empty()) summary->central_only = callee.central_only;
  }
}

// Records the effects of a node that calls nothing on the root at its input `index`.
void Dataflow::NoteInput(const tf::NodeDef& node, const std::vector<Input>& inputs,
                         size_t index, int root, Effects* effects) {
  const std::string& op = node.op();
  if (!WritesInput(op, *inputs[index].declaration)) {
    effects->read = true;
    return;
  }
  effects->written = true;
  effects->generator |= FactsOf(op).advances_generator;
  const OptimiserKind optimiser = FactsOf(op).optimiser;
  if (optimiser != OptimiserKind::kNone) {
    effects->read = true;
    if (index == 0) effects->optimiser = std::max(effects->optimiser, optimiser);
  } else if (FactsOf(op).accumulates) {
    effects->accumulated = true;
  } else {
    effects->replaced = true;
    effects->replaced_by_itself =
        effects->replaced_by_itself ||
        OperandsDependOn(node, [root](int other) { return other == root; });
  }
}

std::set<int> Dataflow::WrittenFromOutside(FunctionSummaries* callees) {
  std::vector<std::pair<const tf::NodeDef*, std::set<int>>> writes;
  for (const tf::NodeDef* node : nodes_) {
    std::set<int> written = Written(*node, callees);
    if (!written.empty()) writes.emplace_back(node, std::move(written));
  }
  std::set<int> outside;
  const auto is_outside = [&](absl::string_view producer) {
    if (producer.empty()) return true;  // fed
    const auto it = by_name_.find(producer);
    if (it != by_name_.end() && Varies(*it->second, callees)) return true;
    const std::set<int>& roots = Traced(producer);
    return std::any_of(roots.begin(), roots.end(),
                       [&](int root) { return outside.count(root) > 0; });
  };
  // Each root found makes others depend on it; repeats until none is found.
  for (bool found = true; found;) {
    found = false;
    for (const auto& [node, written] : writes) {
      if (std::includes(outside.begin(), outside.end(), written.begin(),
                        written.end())) {
        continue;
      }
      bool from_outside = Varies(*node, callees);
      for (const Input& input : Inputs(*node)) {
        from_outside = from_outside || Reaches(input.producer, is_outside);
      }
      if (!from_outside) continue;
      outside.insert(written.begin(), written.end());
      found = true;
    }
  }
  return outside;
}

// Returns the roots that the node writes, in functions too.
std::set<int> Dataflow::Written(const tf::NodeDef& node, FunctionSummaries* callees) {
  std::set<int> written;
  if (FactsOf(node.op()).forwards != Forwards::kNothing ||
      FactsOf(node.op()).is_dataset) {
    return written;
  }
  const std::vector<Call> calls = CallsOf(node, functions_);
  const std::vector<Input> inputs = Inputs(node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].producer.empty()) continue;
    bool writes = calls.empty() && WritesInput(node.op(), *inputs[i].declaration);
    for (const Call& call : calls) {
      const EffectSummary& callee = callees->Of(call.function);
      const size_t argument = i - call.first_argument;
      writes |= argument < callee.roots.size() && callee.roots[argument].written;
    }
    const std::set<int>& roots = Traced(inputs[i].producer);
    if (writes) written.insert(roots.begin(), roots.end());
  }
  return written;
}

// ------------------------------------------------------------- FunctionSummaries

const EffectSummary& FunctionSummaries::Of(const std::string& name) {
  const auto known = summaries_.find(name);
  if (known != summaries_.end()) return *known->second;
  auto& summary = summaries_[name];
  summary = std::make_unique<EffectSummary>();  // still empty: ends recursion
  const auto record = functions_.FindRecord(name);
  if (record == nullptr) return *summary;
  const tf::FunctionDef& definition = record->fdef();
  std::vector<const tf::NodeDef*> nodes;
  for (const tf::NodeDef& node : definition.node_def()) nodes.push_back(&node);
  Dataflow body(std::move(nodes), functions_, [](absl::string_view) { return false; });
  for (const auto& argument : definition.signature().input_arg()) {
    body.AddRoot(argument.name());
  }
  *summary = body.Summarise(this);
  return *summary;
}

// -------------------------------------------------------------------------------

std::string VariableReadBy(const ProgramGraph& graph, absl::string_view tensor,
                           std::vector<std::string>* effects) {
  constexpr int kMostHops = 16;
  std::vector<std::string> found;
  for (int hops = 0; hops < kMostHops; ++hops) {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* node = graph.Find(name.node);
    if (node == nullptr || name.index != 0) return "";
    for (const std::string& input : node->input()) {
      const TensorName control = ParseTensor(input);
      if (control.control) found.emplace_back(control.node);
    }
    if (FactsOf(node->op()).creates_variable) {
      effects->insert(effects->end(), found.begin(), found.end());
      return node->name();
    }
    const tf::OpDef* op = nullptr;
    if (node->input_size() == 0 || ParseTensor(node->input(0)).control ||
        !graph.functions().LookUpOpDef(node->op(), &op).ok()) {
      return "";
    }
    if (HandsReferenceOn(*op) && op->output_arg_size() == 1 &&
        FactsOf(node->op()).forwards == Forwards::kNothing) {
      found.push_back(node->name());
    } else if (node->op() != "Identity" && node->op() != "RefIdentity" &&
               node->op() != "ReadVariableOp") {
      return "";
    }
    tensor = node->input(0);
  }
  return "";
}

}  // namespace tensorbow
