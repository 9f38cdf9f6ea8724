#include "cc/analysis/row_types/rule.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/all_rows.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/type_flow.h"
#include "cc/graph/op_facts.h"

namespace tensorbow {

namespace tf = ::tensorflow;

bool ActsOnOwnState(const tf::Node& node) {
  return !node.op_def().is_stateful() || IsWrite(node.type_string()) ||
         RuleTable::Get().Find(node.type_string()) != nullptr;
}

OpView::OpView(TypeFlow* flow, const TypedGraph& graph, const tf::Node* node,
               std::string path)
    : flow_(flow), graph_(graph), node_(node), path_(std::move(path)) {}

SizeTable& OpView::sizes() const { return *flow_->sizes_; }

bool OpView::is(std::initializer_list<absl::string_view> ops) const {
  return std::find(ops.begin(), ops.end(), op()) != ops.end();
}

tf::DataType OpView::input_type(int i) const {
  return tf::BaseType(node_->input_type(i));
}
tf::DataType OpView::output_type(int k) const {
  return tf::BaseType(node_->output_type(k));
}

const tf::PartialTensorShape& OpView::OutputShape(int k) const {
  return graph_.shapes[node_->id()][k];
}

const tf::PartialTensorShape& OpView::InputShape(int i) const {
  const TypedGraph::Tensor& input = graph_.inputs[node_->id()][i];
  return graph_.shapes[input.node->id()][input.index];
}

std::string OpView::InputName(int i) const {
  const auto& arguments = node_->op_def().input_arg();
  return i < arguments.size() ? arguments[i].name() : "";
}

std::string OpView::SourceOf(int i) const {
  TypedGraph::Tensor at = graph_.inputs[node_->id()][i];
  while (true) {
    const absl::string_view op = at.node->type_string();
    if (op != "Identity" && op != "Reshape" && op != "ExpandDims" && op != "Squeeze" &&
        op != "StopGradient") {
      return TypeFlow::NameOf(*flow_->frame_, at);
    }
    at = graph_.inputs[at.node->id()][0];
  }
}

RowType OpView::Unknown(absl::string_view reason) const {
  RowType type = Make(RowKind::kUnknown);
  type.why = std::make_shared<RowReason>(
      RowReason{path_, std::string(op()), std::string(reason)});
  return type;
}

RowType OpView::Exchanged(int i, RowType type) {
  if (!type.partial()) return type;
  flow_->Exchange(*flow_->frame_, graph_.inputs[node_->id()][i], type.kind);
  return AfterExchange(type);
}

bool OpView::MayNotBeExecuted() const {
  return &graph_ != &flow_->graph_ || graph_.conditional.count(node_) > 0;
}

RowType OpView::Rescaled(int i, RowType type, int exponent) {
  const bool scales =
      type.is(RowKind::kSame) || type.is(RowKind::kRows) || type.is(RowKind::kSum);
  if (!scales || type.exponent == exponent) return type;
  Need(RowNeed::Kind::kRescale, i, type, type.exponent - exponent);
  type.exponent = exponent;
  type.of_all_rows |= type.is(RowKind::kSame);
  type.numbers.reset();
  return type;
}

RowType OpView::Flat(int i, RowType type) {
  type = Rescaled(i, Exchanged(i, std::move(type)));
  if (type.is(RowKind::kSlots) || type.is(RowKind::kSlotted)) {
    Need(RowNeed::Kind::kGather, i, type);
    type = Make(RowKind::kSame, type.dims);
    type.of_all_rows = true;
  }
  if (type.is(RowKind::kSizes)) {
    if (!type.numbers.has_value()) return type;
    for (Size number : *type.numbers) {
      if (!number.known()) return type;
    }
    Need(RowNeed::Kind::kWhole, i, type);
    type = Make(RowKind::kSame, type.dims);
    type.of_all_rows = true;
  }
  return type;
}

Types OpView::Flats(Types types) {
  for (size_t i = 0; i < types.size(); ++i) {
    types[i] = Flat(static_cast<int>(i), std::move(types[i]));
  }
  return types;
}

void OpView::Need(RowNeed::Kind kind, int input, RowType type, int exponent) {
  Need({kind, path_, input, exponent, type.kind});
}

void OpView::Need(RowNeed need) {
  std::vector<RowNeed>& needs = flow_->notes_[path_].needs;
  needs.erase(std::remove_if(needs.begin(), needs.end(),
                             [&](const RowNeed& known) {
                               return known.kind == need.kind &&
                                      known.input == need.input;
                             }),
              needs.end());
  needs.push_back(std::move(need));
}

bool OpView::FollowsFromGenerator() const {
  std::vector<const tf::Node*> open = {node_};
  absl::flat_hash_set<const tf::Node*> seen;
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    if (!node->IsOp() || !seen.insert(node).second) continue;
    std::string aggregation;
    if (FactsOf(node->type_string()).advances_generator) return true;
    if (tf::TryGetNodeAttr(node->attrs(), kAggregationAttribute, &aggregation) &&
        aggregation == "generator") {
      return true;
    }
    for (const TypedGraph::Tensor& input : graph_.inputs[node->id()]) {
      open.push_back(input.node);
    }
  }
  return false;
}

bool OpView::gathers() const { return flow_->gathers_ && MayTakeAllRows(*this); }

void OpView::Write(int input, RowType value, bool trained, absl::string_view variable) {
  flow_->notes_[path_].writes = {
      {path_, std::string(variable), input, trained, std::move(value)}};
}

std::optional<int64_t> OpView::Constant(const RowType& type) const {
  if (!type.numbers.has_value() || type.numbers->size() != 1) return std::nullopt;
  return sizes().Number((*type.numbers)[0]);
}

RowType OpView::UnknownNumbers(const RowType& type, absl::string_view what) const {
  if (type.unknown()) return type;
  return Unknown(absl::StrCat(
      what, type.of_all_rows ? " by the number of all rows" : " by unknown numbers"));
}

bool OpView::IsOnlyLookedUp() const {
  std::vector<const tf::Node*> open = {node_};
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    for (const tf::Edge* edge : node->out_edges()) {
      if (edge->IsControlEdge()) continue;
      const tf::Node* const user = edge->dst();
      if (user->IsIdentity()) {
        open.push_back(user);
      } else if (!MayTakeValuesOfSlots(user->type_string()) || edge->dst_input() > 0) {
        return false;
      }
    }
  }
  return true;
}

bool OpView::trains(absl::string_view variable) const {
  return flow_->trainable_.contains(std::string(variable));
}

Types OpView::Call(const std::string& function, const Types& arguments,
                   absl::string_view label) {
  std::vector<tf::PartialTensorShape> shapes;
  const size_t first = node_->num_inputs() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    shapes.push_back(InputShape(static_cast<int>(first + i)));
  }
  flow_->called_.insert(path_);
  Types outputs =
      flow_->Call(function, arguments, absl::StrCat(path_, "/", label), node_, shapes);
  if (outputs.empty() && num_outputs() > 0) {
    outputs.assign(num_outputs(), Unknown("calls a function that does not exist"));
  }
  return outputs;
}

RowType& OpView::StackOf(const std::string& handle) { return flow_->stacks_[handle]; }

// ---------------------------------------------------------------------- RuleTable

const RuleTable& RuleTable::Get() {
  static const RuleTable* const table = [] {
    auto* const rules = new RuleTable();
    AddElementwiseRules(rules);
    AddReductionRules(rules);
    AddProductRules(rules);
    AddShapeRules(rules);
    AddPieceRules(rules);
    AddCutRules(rules);
    AddPartitionRules(rules);
    AddIndexRules(rules);
    AddDataRules(rules);
    AddControlFlowRules(rules);
    return rules;
  }();
  return *table;
}

void RuleTable::Set(std::initializer_list<absl::string_view> ops, Rule rule) {
  for (absl::string_view op : ops) rules_[std::string(op)] = rule;
}

Rule RuleTable::Find(absl::string_view op) const {
  const auto found = rules_.find(op);
  return found == rules_.end() ? nullptr : found->second;
}

}  // namespace tensorbow
