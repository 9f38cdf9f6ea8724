#include "cc/passes/program/insert_exchanges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/fuse_products.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Need = RowNeed::Kind;

bool CanBeReduced(tf::DataType type) {
  return type == tf::DT_FLOAT || type == tf::DT_DOUBLE || type == tf::DT_HALF ||
         type == tf::DT_BFLOAT16;
}

const char* HowOf(RowKind kind) {
  switch (kind) {
    case RowKind::kMax:
      return "max";
    case RowKind::kMin:
      return "min";
    case RowKind::kAll:
      return "all";
    case RowKind::kAny:
      return "any";
    default:
      return "sum";
  }
}

class Inserter {
 public:
  Inserter(const ProgramGraph& program, const RunSpec& spec, const RowTypes& types,
           Exchanging exchanging, tf::GraphDef* graph)
      : program_(program), types_(types), exchanging_(exchanging), graph_(graph) {
    for (const std::string& fetch : spec.fetches) fetches_.insert(Canonical(fetch));
    for (int i = 0; i < graph->node_size(); ++i) {
      nodes_[graph->node(i).name()] = i;
      for (const std::string& input : graph->node(i).input()) {
        const TensorName tensor = ParseTensor(input);
        if (tensor.control) {
          followers_[tensor.node].push_back(i);
        } else {
          users_[Canonical(input)].push_back(i);
          consumers_[tensor.node].push_back(i);
        }
      }
    }
    for (const RowNeed& need : types.needs) {
      if (need.kind == Need::kMoments || need.kind == Need::kCount ||
          need.kind == Need::kDraw ||
          (need.kind == Need::kGather && need.of == RowKind::kRows)) {
        exchanging_nodes_.insert(need.node);
      }
    }
    for (const auto& [tensor, type] : types.types) {
      if (!type.is(RowKind::kSlotted)) continue;
      const tf::NodeDef* const node = program.Find(ParseTensor(tensor).node);
      if (node != nullptr && node->op() == "UnsortedSegmentSum") {
        exchanging_nodes_.insert(node->name());  // ReduceSlots() follows it
      }
    }
    for (const std::string& tensor : types.exchanges) {
      exchanging_nodes_.insert(std::string(ParseTensor(tensor).node));
    }
    for (const RowWrite& write : types.writes) {
      if (write.trained && write.type.is(RowKind::kSum)) averaged_.insert(write.node);
      const tf::NodeDef* const variable = program.Find(write.variable);
      if (variable == nullptr) continue;
      const auto aggregation = variable->attr().find(kAggregationAttribute);
      if (aggregation != variable->attr().end() && aggregation->second.s() == "sum") {
        summed_.insert(write.node);
      }
    }
  }

  absl::Status Insert() {
    for (const RowNeed& need : types_.needs) {
      if (need.kind == Need::kRescale) continue;
      if (exchanging_ == Exchanging::kAll) {
        TF_RETURN_IF_ERROR(Supply(need));
      } else {
        estimates_ |= need.kind != Need::kDraw;
        if (need.kind == Need::kWhole && exchanging_ != Exchanging::kOwnBatches &&
            !AddsUp(need)) {
          TF_RETURN_IF_ERROR(MakeWhole(need));
        }
      }
    }
    for (const std::string& tensor : types_.exchanges) {
      TF_RETURN_IF_ERROR(Exchange(tensor, types_.types.at(tensor)));
    }
    for (const RowWrite& write : types_.writes) {
      if (exchanging_ != Exchanging::kNothing && write.trained &&
          write.type.is(RowKind::kSum)) {
        TF_RETURN_IF_ERROR(ReduceWritten(write));
      }
    }
    for (const RowNeed& need : types_.needs) {
      if (need.kind != Need::kRescale || exchanging_ == Exchanging::kOwnBatches)
        continue;
      if (exchanging_ != Exchanging::kAll && AddsUp(need)) continue;
      TF_RETURN_IF_ERROR(Rescale(need));
    }
    for (tf::NodeDef& node : added_) *graph_->add_node() = std::move(node);
    return absl::OkStatus();
  }

  bool estimates() const { return estimates_; }

 private:
  absl::Status Supply(const RowNeed& need) {
    switch (need.kind) {
      case Need::kDraw:
        return DrawOnce(need.node);
      case Need::kCount:
        return CountAll(need.node);
      case Need::kGather:
        return Gather(need);
      case Need::kWhole:
        return MakeWhole(need);
      case Need::kAssumed:
        return Misplaced(need.node, "takes indices that may leave their row");
      case Need::kMoments:
      case Need::kRescale:
        break;
    }
    return absl::OkStatus();
  }

  // Gives an input that a learner computes from its numbers of rows those of all rows.
  absl::Status MakeWhole(const RowNeed& need) {
    tf::NodeDef* const node = Node(need.node);
    if (node == nullptr)
      return Misplaced(need.node, "needs numbers of rows in a function");
    const std::string before = Canonical(program_.Find(need.node)->input(need.input));
    TF_ASSIGN_OR_RETURN(std::string whole, WholeOf(before));
    *node->mutable_input(need.input) = std::move(whole);
    return absl::OkStatus();
  }

  // Adds what makes numbers of all rows of a tensor that a learner computes from its
  // numbers of rows; returns the tensor.
  absl::StatusOr<std::string> WholeOf(const std::string& tensor) {
    const auto known = wholes_.find(tensor);
    if (known != wholes_.end()) return known->second;
    const TensorName name = ParseTensor(tensor);
    const auto type = types_.types.find(tensor);
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(tensor));
    if (type == types_.types.end()) return tensor;  // it is fed
    if (type->second.is(RowKind::kSame) && type->second.exponent != 0) {
      const std::string scaled = NameBeside(name, "whole");
      TF_RETURN_IF_ERROR(AddRescale(scaled, name, dtype, -type->second.exponent));
      wholes_[tensor] = scaled;
      return scaled;
    }
    if (type->second.is(RowKind::kSame) || type->second.is(RowKind::kZero))
      return tensor;
    if (!type->second.is(RowKind::kSizes)) {
      return Misplaced(name.node, "is computed from more than numbers of rows");
    }
    bool is_fed = true, adds_up = true, is_multiple = type->second.numbers.has_value();
    std::vector<int> powers;
    for (Size number : type->second.numbers.value_or(Sizes{})) {
      const std::optional<int> degree = types_.sizes->Degree(number);
      is_multiple &= degree.has_value();
      powers.push_back(degree.value_or(0));
      adds_up &= powers.back() == 1;
      is_fed &= types_.sizes->HasFedRowsOnly(number);
    }
    std::string made = NameBeside(name, "whole");
    if (is_multiple && is_fed) {
      TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kRescale)
                             .Input(name.node, name.index, dtype)
                             .Attr("powers", powers)
                             .Finalize(&added_.emplace_back()));
    } else if (is_multiple && adds_up && exchanging_ != Exchanging::kAll) {
      return tensor;  // the learner's own rows are its estimate
    } else if (is_multiple && adds_up) {
      TF_RETURN_IF_ERROR(Exchangeable(name.node).status());
      TF_RETURN_IF_ERROR(AddExchange(made, name, dtype, "sum", 0));
    } else {
      TF_RETURN_IF_ERROR(CopyOfWholes(name, made));
      made = absl::StrCat(made, ":", name.index);
    }
    wholes_[tensor] = made;
    return made;
  }

  // Adds `made`, a copy of the tensor's op that takes numbers of all rows.
  absl::Status CopyOfWholes(const TensorName& tensor, const std::string& made) {
    const tf::NodeDef* const node = program_.Find(tensor.node);
    const tf::OpDef* op = nullptr;
    if (node == nullptr) return Misplaced(tensor.node, "counts rows in a function");
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
    if (op->is_stateful() || LiesInControlFlow(program_, tensor.node)) {
      return Misplaced(tensor.node, "takes a number that is no multiple of the rows");
    }
    tf::NodeDef copy = *node;
    copy.set_name(made);
    for (std::string& input : *copy.mutable_input()) {
      if (ParseTensor(input).control) continue;
      TF_ASSIGN_OR_RETURN(input, WholeOf(Canonical(input)));
    }
    added_.push_back(std::move(copy));
    return absl::OkStatus();
  }

  absl::Status Misplaced(absl::string_view node, absl::string_view why) const {
    const tf::NodeDef* const found = program_.Find(node);
    return absl::InvalidArgumentError(absl::StrCat(
        found == nullptr ? "a function" : found->op(), " '", node, "' ", why));
  }

  // The node of a tensor, where learners can exchange it.
  absl::StatusOr<const tf::NodeDef*> Exchangeable(absl::string_view node) const {
    const tf::NodeDef* const found = program_.Find(node);
    if (found == nullptr) return Misplaced(node, "is to be exchanged in a function");
    if (LiesInControlFlow(program_, node)) {
      return Misplaced(node, "is to be exchanged in a conditional or a loop");
    }
    return found;
  }

  absl::StatusOr<tf::DataType> TypeOf(absl::string_view tensor) const {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* const node = program_.Find(name.node);
    if (node == nullptr) return absl::NotFoundError(tensor);
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
    return tf::BaseType(types.at(name.index));
  }

  tf::NodeDef* Node(absl::string_view name) {
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? nullptr : graph_->mutable_node(found->second);
  }

  // Gives the users of `tensor` that were there at first `other` instead; not those
  // that `keep` it.
  void Replace(const std::string& tensor, const std::string& other,
               const absl::flat_hash_set<std::string>& keep = {}) {
    for (int user : users_[tensor]) {
      if (keep.contains(graph_->node(user).name())) continue;
      for (std::string& input : *graph_->mutable_node(user)->mutable_input()) {
        if (!ParseTensor(input).control && Canonical(input) == tensor) input = other;
      }
    }
  }

  // Returns whether `found(name, waits)` holds for a node that follows from the tensor;
  // `waits`: by waiting for a node that does.
  template <typename Found>
  bool LeadsTo(const std::string& tensor, Found found) const {
    std::vector<int> open;
    absl::flat_hash_set<int> seen;
    bool leads = false;
    const auto follow = [&](const auto& nodes, const auto& key, bool waits) {
      const auto users = nodes.find(key);
      if (users == nodes.end()) return;
      for (int user : users->second) {
        leads |= found(graph_->node(user).name(), waits);
        if (seen.insert(user).second) open.push_back(user);
      }
    };
    follow(users_, tensor, /*waits=*/false);
    while (!open.empty() && !leads) {
      const std::string name = graph_->node(open.back()).name();
      open.pop_back();
      follow(followers_, name, /*waits=*/true);
      follow(consumers_, name, /*waits=*/false);
    }
    return leads;
  }

  // Returns whether another exchange follows from the tensor or waits for it.
  bool LeadsToExchanges(const std::string& tensor) const {
    return LeadsTo(tensor, [this](const std::string& node, bool waits) {
      return exchanging_nodes_.contains(node) || (!waits && averaged_.contains(node));
    });
  }

  // Returns whether a variable is written from it whose value is the sum of the
  // learners' values.
  bool LeadsToSums(const std::string& tensor) const {
    return LeadsTo(tensor, [this](const std::string& node, bool waits) {
      return !waits && summed_.contains(node);
    });
  }

  // Returns whether an input that needs a scale makes a learner's part of such a sum.
  bool AddsUp(const RowNeed& need) const {
    const tf::NodeDef* const node = program_.Find(need.node);
    return node != nullptr && (summed_.contains(need.node) ||
                               LeadsToSums(Canonical(node->input(need.input))));
  }

  std::string NameBeside(const TensorName& tensor, absl::string_view what) const {
    return absl::StrCat(tensor.node, "/TensorBow.", what, ".", tensor.index);
  }

  absl::Status Exchange(const std::string& tensor, const RowType& type) {
    const TensorName name = ParseTensor(tensor);
    if (exchanging_ == Exchanging::kNothing) return Estimate(tensor, type);
    const auto exchangeable = Exchangeable(name.node);
    if (exchanging_ != Exchanging::kAll && !exchangeable.ok()) {
      return Estimate(tensor, type);
    }
    TF_RETURN_IF_ERROR(exchangeable.status());
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(tensor));
    if (type.is(RowKind::kSum) && CanBeReduced(dtype) && !LeadsToExchanges(tensor)) {
      return Reduce(tensor, type);
    }
    if (exchanging_ != Exchanging::kAll) return Estimate(tensor, type);
    const std::string made = NameBeside(name, "exchange");
    TF_RETURN_IF_ERROR(AddExchange(made, name, dtype, HowOf(type.kind), type.exponent));
    Replace(tensor, made);
    return absl::OkStatus();
  }

  // The power of all rows by a learner's by which a sum over its rows becomes one whose
  // mean over the learners is that over all rows.
  int FactorOf(const RowType& type) const {
    return exchanging_ == Exchanging::kOwnBatches ? 0 : 1 - type.exponent;
  }

  // The rows of one learner give a mean as it is, and of a sum their part.
  absl::Status Estimate(const std::string& tensor, const RowType& type) {
    estimates_ = true;
    if (!type.is(RowKind::kSum) || FactorOf(type) == 0 || LeadsToSums(tensor)) {
      return absl::OkStatus();
    }
    const TensorName name = ParseTensor(tensor);
    if (program_.Find(name.node) == nullptr) {
      return Misplaced(name.node, "is to be scaled in a function");
    }
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(tensor));
    const std::string made = NameBeside(name, "estimate");
    TF_RETURN_IF_ERROR(AddRescale(made, name, dtype, FactorOf(type)));
    Replace(tensor, made);
    return absl::OkStatus();
  }

  absl::Status AddExchange(const std::string& made, const TensorName& tensor,
                           tf::DataType dtype, const char* how, int exponent) {
    return tf::NodeDefBuilder(made, kExchange)
        .Input(tensor.node, tensor.index, dtype)
        .Attr("how", how)
        .Attr("exponent", exponent)
        .Finalize(&added_.emplace_back());
  }

  // Puts a reduction of gradients after the tensor, whose mean it makes.
  absl::Status Reduce(const std::string& tensor, const RowType& type) {
    const TensorName name = ParseTensor(tensor);
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(tensor));
    const std::string made = NameBeside(name, "average");
    TensorName mean = name;
    const std::string rescaled = absl::StrCat(made, "/rescaled");
    if (FactorOf(type) != 0) {
      TF_RETURN_IF_ERROR(AddRescale(rescaled, name, dtype, FactorOf(type)));
      mean = {rescaled, 0, false};
    }
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kReduceGradient)
                           .Input(mean.node, mean.index, dtype)
                           .Attr("index", 0)
                           .Attr("shape", ShapeOf(type))
                           .Finalize(&added_.emplace_back()));
    Replace(tensor, made);
    return absl::OkStatus();
  }

  tf::PartialTensorShape ShapeOf(const RowType& type) const {
    if (!type.dims.has_value()) return tf::PartialTensorShape();
    std::vector<int64_t> shape;
    for (Size size : *type.dims)
      shape.push_back(types_.sizes->Number(size).value_or(-1));
    return tf::PartialTensorShape(shape);
  }

  absl::Status AddRescale(const std::string& made, const TensorName& tensor,
                          tf::DataType dtype, int power) {
    return tf::NodeDefBuilder(made, kRescale)
        .Input(tensor.node, tensor.index, dtype)
        .Attr("power", power)
        .Finalize(&added_.emplace_back());
  }

  // The tensor that an input takes by now.
  TensorName InputNow(const tf::NodeDef& node, int input) const {
    return ParseTensor(node.input(input));
  }

  // Averages a sum that is written to a trained variable, where the update does not.
  absl::Status ReduceWritten(const RowWrite& write) {
    tf::NodeDef* const node = Node(write.node);
    if (node == nullptr) return Misplaced(write.node, "writes a sum over rows");
    if (FactsOf(node->op()).optimiser != OptimiserKind::kNone ||
        absl::StrContains(node->op(), "Scatter")) {
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(Exchangeable(write.node).status());
    const std::string before = Canonical(program_.Find(write.node)->input(write.input));
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(before));
    if (!CanBeReduced(dtype))
      return Misplaced(write.node, "writes such a sum over rows");
    const TensorName now = InputNow(*node, write.input);
    const std::string made = absl::StrCat(write.node, "/TensorBow.average");
    const auto type = types_.types.find(before);
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kReduceGradient)
                           .Input(now.node, now.index, dtype)
                           .Attr("index", 0)
                           .Attr("shape", type == types_.types.end()
                                              ? tf::PartialTensorShape()
                                              : ShapeOf(type->second))
                           .Finalize(&added_.emplace_back()));
    reductions_[write.node] = static_cast<int>(added_.size()) - 1;
    *node->mutable_input(write.input) = made;
    return absl::OkStatus();
  }

  absl::Status Rescale(const RowNeed& need) {
    tf::NodeDef* node = Node(need.node);
    if (node == nullptr) return Misplaced(need.node, "is to be scaled in a function");
    const std::string before = Canonical(program_.Find(need.node)->input(need.input));
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(before));
    const std::string made = absl::StrCat(need.node, "/TensorBow.rescale.", need.input);
    // Before a reduction that has been put there.
    const auto reduction = reductions_.find(need.node);
    int input = need.input;
    if (reduction != reductions_.end()) {
      node = &added_[reduction->second];
      input = 0;
    }
    if (std::optional<int> factor = LargeFactor(*node, input, &node)) input = *factor;
    const bool is_reduction =
        reduction != reductions_.end() && node == &added_[reduction->second];
    const TensorName now = InputNow(*node, input);
    const std::string source(now.node);
    TF_RETURN_IF_ERROR(
        AddRescale(made, {source, now.index, false}, dtype, -need.exponent));
    if (is_reduction) node = &added_[reduction->second];  // which may have moved
    *node->mutable_input(input) = made;
    return absl::OkStatus();
  }

  // The factor to scale in the place of a large product, which is computed in the
  // update then (FuseProducts); nullopt if the input is none. Sets `*product_node` to
  // the product.
  std::optional<int> LargeFactor(const tf::NodeDef& user, int input,
                                 tf::NodeDef** product_node) {
    std::string tensor = Canonical(user.input(input));
    tf::NodeDef* product = Node(ParseTensor(tensor).node);
    const auto is_used_once = [this](const std::string& t) {
      return !fetches_.contains(t) && users_[t].size() == 1;
    };
    while (product != nullptr && product->op() == "Identity" && is_used_once(tensor)) {
      tensor = Canonical(product->input(0));
      product = Node(ParseTensor(tensor).node);
    }
    const auto type = types_.types.find(tensor);
    if (product == nullptr || product->op() != "MatMul" || !is_used_once(tensor) ||
        type == types_.types.end() || !CanFuseProduct(ShapeOf(type->second)) ||
        FactsOf(user.op()).optimiser == OptimiserKind::kNone) {
      return std::nullopt;
    }
    *product_node = product;
    return 1;
  }

  // Gives all learners the numbers that the first one draws.
  absl::Status DrawOnce(const std::string& node) {
    TF_ASSIGN_OR_RETURN(const tf::NodeDef* const found, Exchangeable(node));
    if (absl::StrContains(found->op(), "CandidateSampler")) {
      return Misplaced(node, "draws candidates for all rows");
    }
    const std::string tensor = absl::StrCat(node, ":0");
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(tensor));
    const std::string made = absl::StrCat(node, "/TensorBow.first");
    TF_RETURN_IF_ERROR(AddExchange(made, ParseTensor(tensor), dtype, "first", 0));
    Replace(tensor, made);
    return absl::OkStatus();
  }

  // Makes a mean over rows that data choose a sum, divided by the number of all of
  // them.
  absl::Status CountAll(const std::string& name) {
    TF_RETURN_IF_ERROR(Exchangeable(name).status());
    tf::NodeDef* const node = Node(name);
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(absl::StrCat(name, ":0")));
    if (!CanBeReduced(dtype)) return Misplaced(name, "is a mean of such numbers");
    tf::NodeDef sum = *node;
    sum.set_name(absl::StrCat(name, "/TensorBow.sum"));
    sum.set_op("Sum");
    const TensorName rows = InputNow(*node, 0);
    tf::NodeDef mean;
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(name, kMeanOfAllRows)
                           .Input(sum.name(), 0, dtype)
                           .Input(rows.node, rows.index, dtype)
                           .Finalize(&mean));
    *node = std::move(mean);
    added_.push_back(std::move(sum));
    return absl::OkStatus();
  }

  // Gives a write of slices those of all learners.
  absl::Status Gather(const RowNeed& need) {
    TF_RETURN_IF_ERROR(Exchangeable(need.node).status());
    tf::NodeDef* const node = Node(need.node);
    if (need.of == RowKind::kSlots || need.of == RowKind::kSlotted) {
      const std::string input = Canonical(program_.Find(need.node)->input(need.input));
      return ReduceSlots(types_.types.at(input).variable);
    }
    if (!absl::StrContains(node->op(), "Scatter") || need.of != RowKind::kRows) {
      return Misplaced(need.node, "needs the slices of all rows");
    }
    for (int input : {1, 2}) {
      const std::string before = Canonical(program_.Find(need.node)->input(input));
      const auto type = types_.types.find(before);
      TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(before));
      if (type == types_.types.end() || type->second.exponent != 0 ||
          type->second.axis != 0) {
        return Misplaced(need.node, "needs the slices of all rows");
      }
      const std::string made = absl::StrCat(need.node, "/TensorBow.all.", input);
      TF_RETURN_IF_ERROR(AddExchange(made, InputNow(*node, input), dtype, "concat", 0));
      *node->mutable_input(input) = made;
    }
    return absl::OkStatus();
  }

  // Gives all that follows from the slices of a gradient, added up by the distinct
  // indices that `unique` finds, those of all learners.
  absl::Status ReduceSlots(const std::string& unique) {
    if (!reduced_slots_.insert(unique).second) return absl::OkStatus();
    TF_RETURN_IF_ERROR(Exchangeable(unique).status());
    std::string sum;
    for (const auto& [name, at] : nodes_) {
      const auto type = types_.types.find(absl::StrCat(name, ":0"));
      if (type == types_.types.end() || !type->second.is(RowKind::kSlotted) ||
          type->second.variable != unique ||
          graph_->node(at).op() != "UnsortedSegmentSum") {
        continue;
      }
      if (!sum.empty())
        return Misplaced(unique, "is of slices that are added up twice");
      sum = name;
    }
    if (sum.empty()) return Misplaced(unique, "is of slices that are not added up");
    TF_RETURN_IF_ERROR(Exchangeable(sum).status());
    const std::string values = absl::StrCat(sum, ":0"),
                      slots = absl::StrCat(unique, ":0");
    if (LeadsToExchanges(values)) return Misplaced(sum, "is computed with further");
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, TypeOf(values));
    TF_ASSIGN_OR_RETURN(const tf::DataType index_type, TypeOf(slots));
    const std::string made = absl::StrCat(sum, "/TensorBow.rows");
    TensorName own = {sum, 0, false};
    const std::string rescaled = absl::StrCat(made, "/rescaled");
    const int factor = FactorOf(types_.types.at(values));
    if (factor != 0) {
      TF_RETURN_IF_ERROR(AddRescale(rescaled, own, dtype, factor));
      own = {rescaled, 0, false};
    }
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kReduceRows)
                           .Input(own.node, own.index, dtype)
                           .Input(unique, 0, index_type)
                           .Attr("index", 0)
                           .Finalize(&added_.emplace_back()));
    // The sum itself is by the learner's own indices.
    const auto makers = MakersOf(sum);
    Replace(values, absl::StrCat(made, ":0"));
    Replace(slots, absl::StrCat(made, ":1"), makers);
    return absl::OkStatus();
  }

  // The node and all that it is computed from.
  absl::flat_hash_set<std::string> MakersOf(const std::string& name) const {
    absl::flat_hash_set<std::string> makers;
    std::vector<std::string> open = {name};
    while (!open.empty()) {
      const tf::NodeDef* const node = program_.Find(open.back());
      open.pop_back();
      if (node == nullptr || !makers.insert(node->name()).second) continue;
      for (const std::string& input : node->input()) {
        const TensorName tensor = ParseTensor(input);
        if (!tensor.control) open.emplace_back(tensor.node);
      }
    }
    return makers;
  }

  const ProgramGraph& program_;
  const RowTypes& types_;
  const Exchanging exchanging_;
  tf::GraphDef* const graph_;
  bool estimates_ = false;
  absl::flat_hash_map<std::string, int> nodes_;                   // by name
  absl::flat_hash_map<std::string, std::vector<int>> users_;      // by tensor
  absl::flat_hash_map<std::string, std::vector<int>> consumers_;  // by node
  absl::flat_hash_map<std::string, std::vector<int>> followers_;  // by node; they wait
  absl::flat_hash_set<std::string> fetches_;                      // tensors
  // Nodes that exchange values, or whose values are exchanged; that write gradients.
  absl::flat_hash_set<std::string> exchanging_nodes_, averaged_;
  absl::flat_hash_set<std::string> summed_;    // nodes that write sums of the learners'
  std::map<std::string, std::string> wholes_;  // by tensor
  std::set<std::string> reduced_slots_;        // nodes that find distinct indices
  std::map<std::string, int> reductions_;      // by node that writes: among those added
  std::vector<tf::NodeDef> added_;
};

}  // namespace

absl::StatusOr<bool> InsertExchanges(const ProgramGraph& graph, const RunSpec& spec,
                                     const RowTypes& types, Exchanging exchanging,
                                     ProgramGraph* exchanged) {
  tf::GraphDef rewritten;
  TF_RETURN_IF_ERROR(graph.Closure(spec, &rewritten));
  Inserter inserter(graph, spec, types, exchanging, &rewritten);
  TF_RETURN_IF_ERROR(inserter.Insert());
  TF_RETURN_IF_ERROR(exchanged->Extend(rewritten));
  return inserter.estimates();
}

}  // namespace tensorbow
