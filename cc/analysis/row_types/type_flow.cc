#include "cc/analysis/row_types/type_flow.h"

#include <algorithm>
#include <queue>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/all_rows.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kMostEvaluations = 40;  // of one node

constexpr int kAnyInput = -1;

// Whether input `i` of an op may be own places, which the rule then knows.
bool MayBeOwnPlaces(absl::string_view op, int i) {
  static const auto* const inputs = new absl::flat_hash_map<absl::string_view, int>(
      {{"Add", kAnyInput},
       {"AddV2", kAnyInput},
       {"CTCLoss", 1},
       {"Cast", kAnyInput},
       {"ConcatV2", kAnyInput},
       {"DynamicPartition", 0},
       {"DynamicStitch", kAnyInput},
       {"Enter", kAnyInput},
       {"Exit", kAnyInput},
       {"ExpandDims", kAnyInput},
       {"Gather", 1},
       {"GatherNd", 1},
       {"GatherV2", 1},
       {"Identity", kAnyInput},
       {"IdentityN", kAnyInput},
       {"Merge", kAnyInput},
       {"Mul", kAnyInput},
       {"NextIteration", kAnyInput},
       {"Pack", kAnyInput},
       {"ParallelDynamicStitch", kAnyInput},
       {"Rank", kAnyInput},
       {"Reshape", 0},
       {"ResourceGather", 1},
       {"ResourceGatherNd", 1},
       {"ScatterNd", 0},
       {"SegmentMean", 1},
       {"SegmentSum", 1},
       {"SetSize", 0},
       {"Shape", kAnyInput},
       {"ShapeN", kAnyInput},
       {"Size", kAnyInput},
       {"SparseTensorDenseMatMul", 0},
       {"SparseToDense", 0},
       {"Squeeze", kAnyInput},
       {"StackPushV2", kAnyInput},
       {"StopGradient", kAnyInput},
       {"Switch", 0},
       {"TensorListPushBack", kAnyInput},
       {"Tile", 0},
       {"UnsortedSegmentMax", 1},
       {"UnsortedSegmentMin", 1},
       {"UnsortedSegmentSum", 1},
       {"ZerosLike", kAnyInput}});
  const auto found = inputs->find(op);
  return found != inputs->end() && (found->second == kAnyInput || found->second == i);
}

// Ops whose result has own places if an input has, or else uses them as numbers.
bool KeepsOwnPlaces(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Add", "AddV2", "Cast", "ConcatV2", "ExpandDims", "Mul", "Pack", "Reshape",
       "Squeeze", "Tile"});
  return ops->contains(op);
}

bool LooksAtShapesOnly(const OpView& op) {
  return op.is({"OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"});
}

// Ops whose exchanged result is that of their exchanged first input.
bool LetsExchangesPass(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"CheckNumerics", "EnsureShape", "Enter", "ExpandDims", "Identity", "LoopCond",
       "PreventGradient", "RefSwitch", "Reshape", "Snapshot", "Squeeze", "StopGradient",
       "Switch"});
  return ops->contains(op);
}

bool IsLinearInSum(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Add", "AddV2", "Div", "DivNoNan", "Mul", "RealDiv", "Sub"});
  return ops->contains(op);
}

// The whole of what learners have exchanged.
RowType AfterExchange(RowType type) {
  type.kind = RowKind::kSame;
  type.exponent = 0;
  type.numbers.reset();
  type.of_all_rows = true;
  type.axis = -1;
  type.part = kFedRows;
  type.own = OwnPlaces();
  return type;
}

// The nodes that `ends` need, inputs first but for those of loops.
std::vector<const tf::Node*> OrderOf(const TypedGraph& graph,
                                     const std::vector<bool>& given,
                                     const std::vector<const tf::Node*>& ends) {
  std::vector<bool> needed(graph.graph->num_node_ids());
  std::vector<const tf::Node*> open = ends, found;
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    if (!node->IsOp() || needed[node->id()]) continue;
    needed[node->id()] = true;
    found.push_back(node);
    if (given[node->id()]) continue;
    for (const tf::Edge* edge : node->in_edges()) open.push_back(edge->src());
  }
  std::sort(found.begin(), found.end(),
            [](const tf::Node* a, const tf::Node* b) { return a->id() < b->id(); });
  std::vector<const tf::Node*> order;
  std::vector<bool> seen(needed.size());
  for (const tf::Node* first : found) {
    std::vector<std::pair<const tf::Node*, size_t>> stack;
    if (!seen[first->id()]) stack.push_back({first, 0});
    seen[first->id()] = true;
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      const auto& inputs = graph.inputs[node->id()];
      const bool done =
          next == inputs.size() || node->IsNextIteration() || given[node->id()];
      if (done) {
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      const tf::Node* const input = inputs[next++].node;
      if (input == nullptr || seen[input->id()] || !needed[input->id()]) continue;
      seen[input->id()] = true;
      stack.push_back({input, 0});
    }
  }
  return order;
}

bool IsContraction(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D",
       "DepthwiseConv2dNative", "Einsum", "MatMul"});
  return ops->contains(op);
}

// Returns whether the node calls functions that may write variables.
bool MayWrite(const tf::Node& node) {
  return node.op_def().is_stateful() && (node.IsIfNode() || node.IsWhileNode() ||
                                         node.IsCaseNode() || node.IsFunctionCall());
}

}  // namespace

bool ActsOnOwnState(const tf::Node& node) {
  return !node.op_def().is_stateful() || IsWrite(node.type_string()) ||
         RuleTable::Get().Find(node.type_string()) != nullptr;
}

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
      outputs.assign(node.num_outputs(), op.Unknown("does not settle on a type"));
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
  return outputs;
}

Types TypeFlow::Typed(const Frame& frame, OpView& op, const Types& in) {
  bool places = false, misplaced = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i].is(RowKind::kRows) || in[i].own.kind == OwnPlaces::Kind::kNone) continue;
    places = true;
    misplaced |= !MayBeOwnPlaces(op.op(), static_cast<int>(i));
  }
  Types outputs = {op.Unknown("uses the places of rows as numbers")};
  if (!misplaced) {
    Types applied = Apply(op, in);
    if (applied.empty()) return applied;
    if (!places || !KeepsOwnPlaces(op.op()) || applied[0].unknown() ||
        applied[0].own.kind != OwnPlaces::Kind::kNone) {
      outputs = std::move(applied);
    }
  }
  if (!ActsOnOwnState(op.node())) {
    op.Write(0, op.Unknown("acts on what learners share"), false, "");
  }
  const size_t given = outputs.size();
  outputs.resize(op.num_outputs(), given == 1 ? outputs[0] : RowType());
  const bool of_all_rows =
      !LooksAtShapesOnly(op) &&
      std::any_of(in.begin(), in.end(), [](const RowType& t) { return t.of_all_rows; });
  for (int k = 0; k < op.num_outputs(); ++k) {
    if (outputs[k].is(RowKind::kSame)) outputs[k].of_all_rows |= of_all_rows;
    outputs[k] = Complete(frame, op, k, std::move(outputs[k]));
  }
  return outputs;
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
  const Rule rule = RuleTable::Get().Find(op.op());
  if (rule != nullptr) return rule(op, in);
  // What is equal everywhere gives what is equal everywhere.
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
  // Whole numbers that do not depend on rows are symbols of their own.
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
    return op.Unknown("has the shape of rows and is none");
  }
  return type;
}

void TypeFlow::Exchange(const Frame& frame, const TypedGraph::Tensor& tensor,
                        RowKind kind) {
  const TypedGraph::Tensor at = Hoisted(frame, tensor, kind);
  if (frame.caller == nullptr || !at.node->IsArg()) {
    exchanged_.insert(NameOf(frame, at));
    return;
  }
  const auto& arguments = frame.graph->arguments;
  const auto argument = std::find(arguments.begin(), arguments.end(), at.node);
  const auto input = frame.first_argument + (argument - arguments.begin());
  Exchange(*frame.caller, frame.caller->graph->inputs[frame.call->id()][input], kind);
}

TypedGraph::Tensor TypeFlow::Hoisted(const Frame& frame,
                                     const TypedGraph::Tensor& tensor,
                                     RowKind kind) const {
  TypedGraph::Tensor at = tensor;
  while (true) {
    const tf::Node* const node = at.node;
    const auto& inputs = frame.graph->inputs[node->id()];
    const auto kind_of = [&](const TypedGraph::Tensor& input) {
      if (!input.node->IsOp()) return RowKind::kUntyped;
      const RowType& type = frame.types[input.node->id()][input.index];
      return type.partial() && IsExchanged(frame, input) ? RowKind::kSame : type.kind;
    };
    int only = -1;
    const absl::string_view op = node->type_string();
    if (LetsExchangesPass(op) ||
        (kind == RowKind::kSum && (op == "Neg" || op == "Cast"))) {
      only = 0;
    } else if (kind == RowKind::kSum && IsLinearInSum(op)) {
      int sums = 0;
      bool others = true;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const RowKind input = kind_of(inputs[i]);
        if (input == RowKind::kSum) {
          ++sums;
          only = static_cast<int>(i);
        } else {
          others &= input == RowKind::kSame || input == RowKind::kZero;
        }
      }
      if (sums != 1 || !others) only = -1;
    }
    if (only < 0 || kind_of(inputs[only]) != kind || IsExchanged(frame, inputs[only])) {
      return at;
    }
    at = inputs[only];
  }
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

bool TypeFlow::Has(const tf::Node& node, RowNeed::Kind kind, int input) const {
  const auto notes = notes_.find(node.name());
  return notes != notes_.end() &&
         std::any_of(notes->second.needs.begin(), notes->second.needs.end(),
                     [&](const RowNeed& need) {
                       return need.kind == kind && (input < 0 || need.input == input);
                     });
}

const tf::Node* TypeFlow::FindRepeatedWork() const {
  using Kind = RowNeed::Kind;
  const auto is_same = [this](const TypedGraph::Tensor& tensor, int least_rank) {
    const auto type = types_.find(absl::StrCat(tensor.node->name(), ":", tensor.index));
    return type != types_.end() && type->second.is(RowKind::kSame) &&
           (!type->second.dims.has_value() || type->second.rank() >= least_rank);
  };
  // Nodes that compute from all rows.
  NodeSet whole;
  std::vector<const tf::Node*> open;
  for (const tf::Node* node : graph_.graph->op_nodes()) {
    if (Has(*node, Kind::kAllRows) && whole.insert(node).second) open.push_back(node);
  }
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    for (const tf::Node* consumer : graph_.consumers[node->id()]) {
      const auto& inputs = graph_.inputs[consumer->id()];
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].node == node && is_same(inputs[i], 1) &&
            !Has(*consumer, Kind::kOwnRows, static_cast<int>(i)) &&
            whole.insert(consumer).second) {
          open.push_back(consumer);
        }
      }
    }
  }
  for (const tf::Node* node : graph_.graph->op_nodes()) {
    if (whole.count(node) == 0 || !IsContraction(node->type_string())) continue;
    const auto& inputs = graph_.inputs[node->id()];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].node->IsOp() && whole.count(inputs[i].node) == 0 &&
          is_same(inputs[i], 2)) {
        return node;
      }
    }
  }
  return nullptr;
}

RowTypes TypeFlow::Take() {
  const tf::Node* const repeated = FindRepeatedWork();
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
  if (repeated != nullptr) {
    const OpView op(this, graph_, repeated, repeated->name());
    result.unknown =
        op.Unknown("would compute the model from all rows on every learner").why;
  }
  for (auto& [node, notes] : notes_) {
    for (RowNeed& need : notes.needs) result.needs.push_back(std::move(need));
    for (RowWrite& write : notes.writes) result.writes.push_back(std::move(write));
  }
  return result;
}

// ---------------------------------------------------------------------- OpView

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
      what, type.of_all_rows ? " by the number of all rows" : " that is not known"));
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
  Types outputs =
      flow_->Call(function, arguments, absl::StrCat(path_, "/", label), node_, shapes);
  if (outputs.empty() && num_outputs() > 0) {
    outputs.assign(num_outputs(), Unknown("calls a function that there is not"));
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
