#include "cc/program/deferred_fetches.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "cc/feeds/feeds.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/run_graph.h"
#include "cc/program/run_rules.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Estimates of a kernel's time for an element of an input, in ns.
constexpr double kHistogramCost = 40;
constexpr double kOtherCost = 0.5;
// The least work to defer, in ns: about three times what a run of the central session
// takes.
constexpr double kLeastWork = 200e3;
constexpr int64_t kUnknownSize = 64;  // of a dimension, as an estimate
constexpr double kFewElements = 16;

// Returns the declaration of a node's op, or null.
const tf::OpDef* DeclarationOf(const tf::NodeDef& node) {
  const tf::OpDef* op = nullptr;
  return tf::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok() ? op : nullptr;
}

bool ReturnsReference(const tf::NodeDef& node) {
  const tf::OpDef* const op = DeclarationOf(node);
  return op == nullptr ||
         std::any_of(op->output_arg().begin(), op->output_arg().end(),
                     [](const tf::OpDef::ArgDef& output) { return output.is_ref(); });
}

// Returns whether the node does nothing but compute outputs from inputs.
bool IsPure(const tf::NodeDef& node) {
  static const auto* const control_flow = new absl::flat_hash_set<absl::string_view>{
      "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"};
  const tf::OpDef* const op = DeclarationOf(node);
  if (op == nullptr || op->is_stateful() || HasEffects(*op) ||
      control_flow->contains(node.op())) {
    return false;
  }
  return std::none_of(node.attr().begin(), node.attr().end(), [](const auto& attr) {
    return attr.second.has_func() || attr.second.list().func_size() > 0;
  });
}

// Returns whether `node` computes what `original` (may be null) does.
bool IsAlike(const tf::NodeDef* original, const tf::NodeDef& node) {
  if (original == &node) return true;
  if (original == nullptr || original->op() != node.op() ||
      original->attr_size() != node.attr_size() ||
      !std::equal(original->input().begin(), original->input().end(),
                  node.input().begin(), node.input().end())) {
    return false;
  }
  return std::all_of(node.attr().begin(), node.attr().end(), [&](const auto& attr) {
    const auto found = original->attr().find(attr.first);
    return found != original->attr().end() &&
           tf::AreAttrValuesEqual(attr.second, found->second,
                                  /*allow_false_negatives=*/true);
  });
}

// Returns the number of elements; an estimate if dimensions are not known.
double NumElements(const RowType* type, const SizeTable& sizes) {
  if (type == nullptr || !type->dims.has_value()) return kUnknownSize;
  double elements = 1;
  for (const Size& size : *type->dims) {
    elements *= static_cast<double>(sizes.Number(size).value_or(kUnknownSize));
  }
  return elements;
}

bool IsCombinable(const std::string& tensor, const RowTypes& types) {
  const RowType* const type = types.Find(tensor);
  return type != nullptr &&
         RuleForFetch(*type, *types.sizes, /*estimates=*/false).has_value();
}

double NumElementsOfInputs(const tf::NodeDef& node, const RowTypes& types) {
  double elements = 0;
  for (const std::string& input : node.input()) {
    elements += NumElements(types.Find(Canonical(input)), *types.sizes);
  }
  return elements;
}

bool HasFewElements(const tf::NodeDef& node, const RowTypes& types) {
  return NumElementsOfInputs(node, types) <= kFewElements;
}

// Estimates the time of a node, in ns.
double WorkOf(const tf::NodeDef& node, const RowTypes& types) {
  return NumElementsOfInputs(node, types) *
         (node.op() == "HistogramSummary" ? kHistogramCost : kOtherCost);
}

}  // namespace

absl::StatusOr<Deferral> Deferral::Of(const ProgramGraph& original,
                                      const ProgramGraph& graph,
                                      const CompiledProgram& program) {
  Deferral deferral;
  TF_ASSIGN_OR_RETURN(deferral.run_, RunGraph::Of(graph, program.task));
  deferral.FindCandidates(original, program);
  return deferral;
}

void Deferral::FindCandidates(const ProgramGraph& original,
                              const CompiledProgram& program) {
  for (const std::string& target : program.task.targets) {
    kept_.emplace(ParseTensor(target).node);
  }
  if (program.rows_fetch >= 0) {
    kept_.emplace(ParseTensor(program.task.fetches[program.rows_fetch]).node);
  }
  std::vector<std::string> pending;
  for (const FetchSource& fetch : program.fetches) {
    const std::string& name = fetch.declaration.name;
    if (fetch.task_fetch < 0) continue;
    if (fetch.declaration.combination.has_value()) {
      kept_.emplace(ParseTensor(name).node);
    } else {
      pending.push_back(name);
    }
  }
  for (const Node* node : run_->nodes()) {
    if (node->op() == "Const" && IsAlike(original.Find(node->name()), *node)) {
      constants_.insert(node->name());
    }
  }
  while (!pending.empty()) {
    const std::string tensor = std::move(pending.back());
    pending.pop_back();
    const Node* const node = run_->Find(ParseTensor(tensor).node);
    if (node == nullptr || run_->IsFed(tensor) || candidates_.count(node->name()) > 0 ||
        !IsCandidate(original, *node)) {
      continue;
    }
    candidates_.insert(node->name());
    pending.insert(pending.end(), node->input().begin(), node->input().end());
  }
}

bool Deferral::IsCandidate(const ProgramGraph& original, const Node& node) const {
  if (kept_.contains(node.name()) || !IsPure(node) ||
      !IsAlike(original.Find(node.name()), node) || run_->InControlFlow(node.name())) {
    return false;
  }
  for (const std::string& input : node.input()) {
    const TensorName name = ParseTensor(input);
    const Node* const producer = run_->Find(name.node);
    if (name.control || producer == nullptr || ReturnsReference(*producer)) {
      return false;
    }
  }
  const auto consumers = run_->consumers(node.name());
  return std::all_of(consumers.begin(), consumers.end(),
                     [this](const RunGraph::Use& use) {
                       return candidates_.count(use.node->name()) > 0;
                     });
}

void Deferral::Defer(const Node& node) {
  if (!deferred_.insert(node.name()).second) return;
  for (const RunGraph::Use& use : run_->consumers(node.name())) Defer(*use.node);
}

bool Deferral::TryDefer(absl::string_view node, const RowTypes& types) {
  if (candidates_.count(node) == 0) return false;
  const absl::flat_hash_set<std::string> before = deferred_;
  Defer(*run_->Find(node));
  if (DeferUncombinable(types)) return true;
  deferred_ = before;
  return false;
}

bool Deferral::DeferUncombinable(const RowTypes& types) {
  size_t before;
  do {
    before = deferred_.size();
    for (const std::string& input : Inputs()) {
      if (run_->IsFed(input) || IsCombinable(input, types)) continue;
      const absl::string_view producer = ParseTensor(input).node;
      if (candidates_.count(producer) == 0) return false;
      Defer(*run_->Find(producer));
    }
  } while (deferred_.size() > before);
  return true;
}

std::set<std::string> Deferral::Inputs() const {
  std::set<std::string> inputs;
  for (const std::string& name : deferred_) {
    for (const std::string& input : run_->Find(name)->input()) {
      const absl::string_view producer = ParseTensor(input).node;
      if (!deferred_.contains(producer) && !constants_.contains(producer)) {
        inputs.insert(Canonical(input));
      }
    }
  }
  return inputs;
}

void Deferral::DeferUntyped(const RowTypes& types) {
  for (const RowNeed& need : types.needs) {
    if (need.kind == RowNeed::Kind::kAllRows) TryDefer(need.node, types);
  }
  for (const std::string& name : candidates_) {
    for (const std::string& input : run_->Find(name)->input()) {
      const RowType* const type = types.Find(Canonical(input));
      if (type != nullptr && type->unknown()) TryDefer(ParseTensor(input).node, types);
    }
  }
  for (const std::string& fetch : run_->spec().fetches) {
    if (!IsCombinable(Canonical(fetch), types)) {
      TryDefer(ParseTensor(fetch).node, types);
    }
  }
}

void Deferral::DeferLongWork(const RowTypes& types) {
  std::vector<std::pair<std::string, double>> nodes;
  double all = 0;
  for (const std::string& name : candidates_) {
    const RowType* const type = types.Find(absl::StrCat(name, ":0"));
    if (deferred_.contains(name) || type == nullptr || !type->is(RowKind::kSame) ||
        type->exponent != 0) {
      continue;
    }
    nodes.emplace_back(name, WorkOf(*run_->Find(name), types));
    all += nodes.back().second;
  }
  if (all < kLeastWork && deferred_.empty()) return;
  for (const auto& [node, work] : nodes) {
    if (work >= kLeastWork / 10) TryDefer(node, types);
  }
}

void Deferral::DeferScalars(const RowTypes& types) {
  size_t before;
  do {
    before = deferred_.size();
    for (const std::string& input : Inputs()) {
      const absl::string_view producer = ParseTensor(input).node;
      const auto consumers = run_->consumers(producer);
      const bool only_deferred = std::all_of(
          consumers.begin(), consumers.end(),
          [this](const auto& use) { return deferred_.contains(use.node->name()); });
      if (only_deferred && candidates_.count(producer) > 0 &&
          HasFewElements(*run_->Find(producer), types)) {
        TryDefer(producer, types);
      }
    }
  } while (deferred_.size() > before);
}

bool Deferral::Extend(const RowTypes& types) {
  const size_t before = deferred_.size();
  DeferUntyped(types);
  DeferLongWork(types);
  DeferScalars(types);
  return deferred_.size() > before;
}

RunSpec Deferral::Rest(const RunSpec& spec) const {
  RunSpec rest = spec;
  rest.fetches.clear();
  for (const std::string& fetch : spec.fetches) {
    if (!IsDeferred(fetch)) rest.fetches.push_back(fetch);
  }
  for (const std::string& input : Inputs()) {
    if (!run_->IsFed(input)) rest.fetches.push_back(input);
  }
  return rest;
}

absl::Status Deferral::Apply(const RowTypes& types, CompiledProgram* program) const {
  if (deferred_.empty()) return absl::OkStatus();
  RunSpec& task = program->task;
  std::vector<std::string> fetches;
  const auto fetch_of_task = [&fetches](const std::string& tensor) {
    fetches.push_back(tensor);
    return static_cast<int>(fetches.size()) - 1;
  };
  for (FetchSource& fetch : program->fetches) {
    if (fetch.task_fetch < 0) continue;
    fetch.deferred = IsDeferred(fetch.declaration.name);
    fetch.task_fetch = fetch.deferred ? -1 : fetch_of_task(fetch.declaration.name);
  }
  if (program->rows_fetch >= 0) {
    program->rows_fetch = fetch_of_task(task.fetches[program->rows_fetch]);
  }
  for (const std::string& input : Inputs()) {
    DeferredInput made;
    made.declaration.name = input;
    if (run_->IsFed(input)) {
      const auto fed = std::find_if(
          task.feeds.begin(), task.feeds.end(),
          [&input](const std::string& feed) { return Canonical(feed) == input; });
      made.run_feed = static_cast<int>(fed - task.feeds.begin());
    } else {
      TF_ASSIGN_OR_RETURN(made.declaration.rule, CombinationOf(input, types, false));
      made.task_fetch = fetch_of_task(input);
    }
    program->deferred_inputs.push_back(std::move(made));
  }
  task.fetches = std::move(fetches);
  return absl::OkStatus();
}

absl::StatusOr<DeferredRun> DeferredRunOf(const CompiledProgram& program,
                                          const std::vector<tf::Tensor>& feeds,
                                          const std::vector<TaskOutcome>& tasks) {
  DeferredRun run;
  for (size_t i = 0; i < program.fetches.size(); ++i) {
    if (!program.fetches[i].deferred) continue;
    run.fetches.push_back(program.fetches[i].declaration.name);
    run.places.push_back(static_cast<int>(i));
  }
  for (const DeferredInput& input : program.deferred_inputs) {
    tf::Tensor value;
    if (input.run_feed >= 0) {
      value = feeds[input.run_feed];
    } else {
      TF_ASSIGN_OR_RETURN(value, Combine(input.declaration, tasks, input.task_fetch));
    }
    run.feeds.emplace_back(input.declaration.name, Aligned(value));
  }
  return run;
}

}  // namespace tensorbow
