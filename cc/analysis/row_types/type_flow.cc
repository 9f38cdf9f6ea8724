#include "cc/analysis/row_types/type_flow.h"

#include <algorithm>
#include <queue>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/all_rows.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/own_places.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kMostEvaluations = 40;  // of one node

bool LooksAtShapesOnly(const OpView& op) {
  return op.is({"OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"});
}

// Returns whether the node calls functions that may write variables.
bool MayWrite(const tf::Node& node) {
  return node.op_def().is_stateful() && (node.IsIfNode() || node.IsWhileNode() ||
                                         node.IsCaseNode() || node.IsFunctionCall());
}

}  // namespace

std::string TypeFlow::NameOf(const Frame& frame, const TypedGraph::Tensor& tensor) {
  return absl::StrCat(frame.prefix, tensor.node->name(), ":", tensor.index);
}

void TypeFlow::Run(const Given& given, const std::vector<const tf::Node*>& ends) {
  given_ = &given;
  size_t before = 0;
  do {
    before = exchanged_.size();
    types_.clear();
    notes_.clear();
    stacks_.clear();
    Frame frame;
    frame.graph = &graph_;
    frame.types.resize(graph_.graph->num_node_ids());
    frame.given.resize(graph_.graph->num_node_ids());
    for (const tf::Node* node : graph_.graph->op_nodes()) {
      frame.types[node->id()].resize(node->num_outputs());
    }
    std::map<int, int> count;
    for (const auto& [at, type] : given) {
      frame.types[at.first][at.second] = type;
      const int outputs = static_cast<int>(frame.types[at.first].size());
      frame.given[at.first] = ++count[at.first] == outputs;
    }
    Walk(&frame, ends);
  } while (exchanged_.size() != before);
}

void TypeFlow::Walk(Frame* frame, const std::vector<const tf::Node*>& ends) {
  Frame* const outer = std::exchange(frame_, frame);
  const TypedGraph& graph = *frame->graph;
  const std::vector<const tf::Node*> order = OrderOf(graph, frame->given, ends);
  std::vector<int> place(graph.graph->num_node_ids(), -1), count(place.size());
  std::vector<bool> queued(place.size());
  std::priority_queue<int, std::vector<int>, std::greater<int>> open;
  std::vector<int> pops;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]->id()] = static_cast<int>(i);
    queued[order[i]->id()] = true;
    open.push(static_cast<int>(i));
    if (absl::StartsWith(order[i]->type_string(), "StackPop")) {
      pops.push_back(static_cast<int>(i));
    }
  }
  const auto push = [&](int at) {
    const int id = order[at]->id();
    if (queued[id] || count[id] > kMostEvaluations) return;
    queued[id] = true;
    open.push(at);
  };
  while (!open.empty()) {
    const tf::Node& node = *order[open.top()];
    open.pop();
    queued[node.id()] = false;
    ++count[node.id()];
    if (frame->given[node.id()]) continue;
    Types outputs = Evaluate(*frame, node);
    if (count[node.id()] > kMostEvaluations) {
      OpView op(this, graph, &node, absl::StrCat(frame->prefix, node.name()));
      outputs.assign(node.num_outputs(),
                     op.Unknown("has a type that changes with each iteration"));
    }
    Types& known = frame->types[node.id()];
    bool changed = false;
    for (size_t k = 0; k < outputs.size() && k < known.size(); ++k) {
      const bool fed = frame->graph == &graph_ &&
                       given_->count({node.id(), static_cast<int>(k)}) > 0;
      if (fed || !outputs[k].typed() || known[k] == outputs[k]) continue;
      known[k] = std::move(outputs[k]);
      changed = true;
    }
    if (absl::StartsWith(node.type_string(), "StackPush")) {
      for (int pop : pops) push(pop);
    }
    if (!changed) continue;
    for (const tf::Node* consumer : graph.consumers[node.id()]) {
      if (place[consumer->id()] >= 0) push(place[consumer->id()]);
    }
  }
  for (const tf::Node* node : order) {
    for (int k = 0; k < node->num_outputs(); ++k) {
      types_[NameOf(*frame, {node, k})] = frame->types[node->id()][k];
    }
  }
  frame_ = outer;
}

bool TypeFlow::IsExchanged(const Frame& frame, const TypedGraph::Tensor& tensor) const {
  return exchanged_.contains(NameOf(frame, tensor));
}

Types TypeFlow::Evaluate(const Frame& frame, const tf::Node& node) {
  OpView op(this, *frame.graph, &node, absl::StrCat(frame.prefix, node.name()));
  notes_.erase(op.path());
  called_.erase(op.path());
  Types in;
  bool all_typed = true;
  for (const TypedGraph::Tensor& input : frame.graph->inputs[node.id()]) {
    RowType type =
        input.node->IsOp() ? frame.types[input.node->id()][input.index] : RowType();
    if (type.partial() && IsExchanged(frame, input)) type = AfterExchange(type);
    all_typed &= type.typed();
    in.push_back(std::move(type));
  }
  const bool merges = node.IsMerge();
  if (!merges && !all_typed) return {};
  const RowType* const unknown = merges ? nullptr : FirstUnknown(in);
  Types outputs;
  if (unknown != nullptr && !LooksAtShapesOnly(op)) {
    if (IsWrite(op.op())) {
      outputs = TypeWrite(op, in);
    } else if (!ActsOnOwnState(node) || MayWrite(node)) {
      op.Write(0, *unknown, /*trained=*/false, "");
    }
    outputs.assign(node.num_outputs(), *unknown);
    return outputs;
  }
  outputs = Typed(frame, op, in);
  if (!outputs.empty() && FirstUnknown(outputs) != nullptr) {
    outputs = ApplyToOtherRows(frame, op, in, std::move(outputs));
  }
  const RowType* const lost = FirstUnknown(outputs);
  if (lost != nullptr && MayWrite(node) && !called_.contains(op.path())) {
    op.Write(0, *lost, /*trained=*/false, "");  // what its functions write is not typed
  }
  return outputs;
}

Types TypeFlow::Typed(const Frame& frame, OpView& op, const Types& in) {
  bool places = false, misplaced = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].is(RowKind::kRows) || in[i].own.kind == OwnPlaces::Kind::kNone) continue;
    places = true;
    misplaced |= !MayBeOwnPlaces(op.op(), static_cast<int>(i));
  }
  Types outputs = {op.Unknown("computes with row numbers")};
  if (!misplaced) {
    Types applied = Apply(op, in);
    if (applied.empty()) return applied;
    if (!places || !KeepsOwnPlaces(op.op()) || applied[0].unknown() ||
        applied[0].own.kind != OwnPlaces::Kind::kNone) {
      outputs = std::move(applied);
    }
  }
  if (!ActsOnOwnState(op.node())) {
    op.Write(0, op.Unknown("acts on state that learners share"), false, "");
  }
  const size_t given = outputs.size();
  outputs.resize(op.num_outputs(), given == 1 ? outputs[0] : RowType());
  const bool of_all_rows =
      !LooksAtShapesOnly(op) &&
      std::any_of(in.begin(), in.end(), [](const RowType& t) { return t.of_all_rows; });
  const bool mixes = of_all_rows && TakesOwnSizes(op, in);
  for (int k = 0; k < op.num_outputs(); ++k) {
    if (outputs[k].is(RowKind::kSame)) {
      outputs[k].of_all_rows |= of_all_rows;
      if (mixes) outputs[k] = op.Unknown("combines rows with another number of rows");
    }
    outputs[k] = Complete(frame, op, k, std::move(outputs[k]));
  }
  return outputs;
}

bool TypeFlow::TakesOwnSizes(const OpView& op, const Types& in) {
  const auto counts_own = [this](const std::optional<Sizes>& sizes) {
    return sizes.has_value() &&
           std::any_of(sizes->begin(), sizes->end(),
                       [this](Size size) { return sizes_->HasRows(size); });
  };
  const std::vector<RowNeed>& needs = notes_[op.path()].needs;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool sized = in[i].is(RowKind::kZero) && counts_own(in[i].dims);
    if (!sized && !counts_own(in[i].numbers)) continue;
    const bool adapted = std::any_of(
        needs.begin(), needs.end(),
        [i](const RowNeed& need) { return need.input == static_cast<int>(i); });
    if (!adapted) return true;
  }
  return false;
}

Types TypeFlow::Apply(OpView& op, const Types& in) {
  if (IsWrite(op.op())) return TypeWrite(op, in);
  if (!op.node().IsMerge()) {
    if (const std::optional<Types> numbers = TypeNumbers(op, in)) return *numbers;
  }
  if (std::any_of(in.begin(), in.end(),
                  [](const RowType& type) { return type.is(RowKind::kBlocks); })) {
    return TypeBlocks(op, in);
  }
  const bool of_slots = std::any_of(in.begin(), in.end(), [](const RowType& type) {
    return type.is(RowKind::kOfSlots);
  });
  if (of_slots && !MayTakeValuesOfSlots(op.op()) && !HandsOn(op.op())) {
    return {op.Unknown("computes with distinct values of each learner's rows")};
  }
  const Rule rule = RuleTable::Get().Find(op.op());
  if (rule != nullptr) return rule(op, in);
  // An op on inputs that are equal everywhere gives equal outputs.
  const Types flat = op.Flats(in);
  if (const RowType* unknown = FirstUnknown(flat)) return {*unknown};
  RowType same = Make(RowKind::kSame);
  for (const RowType& type : flat) {
    if (!type.is(RowKind::kSame) && !type.is(RowKind::kZero) &&
        !type.is(RowKind::kHandle)) {
      return {op.Unknown("has no rule for rows")};
    }
    same.of_all_rows |= type.of_all_rows;
  }
  return {same};
}

Types TypeFlow::ApplyToOtherRows(const Frame& frame, OpView& op, const Types& in,
                                 Types outputs) {
  if (!op.gathers()) return outputs;
  const Notes before = notes_[op.path()];
  for (const auto take : {TakeOwnRows, TakeAllRows}) {
    notes_.erase(op.path());
    const std::optional<Types> others = take(op, in);
    if (!others.has_value()) continue;
    Types found = Typed(frame, op, *others);
    if (!found.empty() && FirstUnknown(found) == nullptr) return found;
  }
  notes_[op.path()] = before;
  return outputs;
}

bool TypeFlow::TakesOfFeed(const Frame& frame, const tf::Node& node) const {
  for (const TypedGraph::Tensor& input : frame.graph->inputs[node.id()]) {
    if (!input.node->IsOp()) continue;
    const RowType& type = frame.types[input.node->id()][input.index];
    if (!type.dims.has_value() || type.is(RowKind::kRows)) continue;
    for (Size size : *type.dims) {
      if (sizes_->IsOfFeed(size)) return true;
    }
  }
  return false;
}

RowType TypeFlow::Complete(const Frame& frame, OpView& op, int output, RowType type) {
  const bool numeric = type.is(RowKind::kSame) || type.is(RowKind::kZero) ||
                       type.is(RowKind::kRows) || type.partial();
  if (!numeric) return type;
  const tf::PartialTensorShape& shape = op.OutputShape(output);
  SizeTable& sizes = *sizes_;
  if (!shape.unknown_rank()) {
    if (!type.dims.has_value() || type.rank() != shape.dims()) {
      type.dims = Sizes(shape.dims(), kUnknownSize);
    }
    if (type.is(RowKind::kRows) && type.axis >= shape.dims()) {
      return op.Unknown("moves rows to an unknown axis");
    }
    for (int d = 0; d < shape.dims(); ++d) {
      Size& dim = (*type.dims)[d];
      if (dim.known() || (type.is(RowKind::kRows) && d == type.axis)) continue;
      if (shape.dim_size(d) >= 0) {
        dim = sizes.Constant(shape.dim_size(d));
      } else if (!type.is(RowKind::kZero)) {  // zeros may have the shape of rows
        const std::string name = absl::StrCat(op.path(), ":", output, ":", d);
        dim = TakesOfFeed(frame, op.node()) ? sizes.OfFeed(name)
              : type.of_all_rows            ? sizes.OpenOfAll(name)
                                            : sizes.Open(name);
      }
    }
  }
  if (type.is(RowKind::kSame) && type.dims.has_value()) {
    type.of_all_rows |= std::any_of(type.dims->begin(), type.dims->end(),
                                    [&](Size size) { return sizes.CountsAll(size); });
  }
  // Integers that do not depend on rows become symbols of their own.
  if (type.is(RowKind::kSame) && type.exponent == 0 && !type.of_all_rows &&
      !type.numbers.has_value() && tf::DataTypeIsInteger(op.output_type(output)) &&
      type.dims.has_value() && type.rank() <= 1) {
    const int64_t count =
        type.rank() == 0 ? 1 : sizes.Number((*type.dims)[0]).value_or(-1);
    if (count >= 0 && count <= 16) {
      type.numbers.emplace();
      for (int64_t i = 0; i < count; ++i) {
        type.numbers->push_back(sizes.Open(
            absl::StrCat(op.path(), ":", output, type.rank() == 0 ? ":" : "=", i)));
      }
    }
  }
  if (!type.is(RowKind::kRows) && !type.is(RowKind::kZero) && type.dims.has_value() &&
      sizes.HasRows(*type.dims)) {
    return op.Unknown("has the shape of rows, but does not hold rows");
  }
  return type;
}

Types TypeFlow::Call(const std::string& function, const Types& arguments,
                     const std::string& prefix, const tf::Node* call,
                     const std::vector<tf::PartialTensorShape>& shapes) {
  std::string key = function;
  for (const tf::PartialTensorShape& shape : shapes) {
    absl::StrAppend(&key, " ", shape.DebugString());
  }
  std::unique_ptr<TypedGraph>& body = bodies_[key];
  if (body == nullptr) {
    auto made = TypedGraph::OfFunction(functions_, function, shapes,
                                       graph_.graph->versions().producer());
    if (!made.ok()) return {};
    body = std::move(*made);
  }
  const TypedGraph& graph = *body;
  Frame frame;
  frame.graph = &graph;
  frame.prefix = prefix;
  if (!call->IsWhileNode()) {
    frame.caller = frame_;
    frame.call = call;
    frame.first_argument = call->IsIfNode() || call->IsCaseNode() ? 1 : 0;
  }
  frame.types.resize(graph.graph->num_node_ids());
  frame.given.resize(graph.graph->num_node_ids());
  for (const tf::Node* node : graph.graph->op_nodes()) {
    frame.types[node->id()].resize(node->num_outputs());
  }
  for (size_t i = 0; i < graph.arguments.size() && i < arguments.size(); ++i) {
    const int id = graph.arguments[i]->id();
    frame.types[id] = {arguments[i]};
    frame.given[id] = true;
  }
  std::vector<const tf::Node*> ends = graph.results;
  ends.insert(ends.end(), graph.effects.begin(), graph.effects.end());
  Walk(&frame, ends);
  Types outputs;
  for (const tf::Node* result : graph.results) {
    const TypedGraph::Tensor& value = graph.inputs[result->id()][0];
    RowType type = frame.types[value.node->id()][value.index];
    if (type.partial() && IsExchanged(frame, value)) type = AfterExchange(type);
    outputs.push_back(std::move(type));
  }
  return outputs;
}

RowTypes TypeFlow::Take() {
  RowTypes result;
  result.sizes = sizes_;
  result.types = std::move(types_);
  for (const std::string& tensor : exchanged_) {
    const auto type = result.types.find(tensor);
    if (type != result.types.end() && type->second.partial()) {
      result.exchanges.push_back(tensor);
    }
  }
  std::sort(result.exchanges.begin(), result.exchanges.end());
  for (auto& [node, notes] : notes_) {
    for (RowNeed& need : notes.needs) result.needs.push_back(std::move(need));
    for (RowWrite& write : notes.writes) result.writes.push_back(std::move(write));
  }
  return result;
}

}  // namespace tensorbow
