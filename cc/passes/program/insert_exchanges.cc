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
#include "cc/graph/op_facts.h"
#include "cc/passes/program/average_sums.h"
#include "cc/passes/program/row_supplies.h"
#include "cc/passes/program/run_edits.h"
#include "cc/passes/program/whole_numbers.h"
#include "cc/passes/task/fuse_products.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Need = RowNeed::Kind;

class Inserter {
 public:
  Inserter(const ProgramGraph& program, const RunSpec& spec, const RowTypes& types,
           Exchanging exchanging, tf::GraphDef* graph)
      : program_(program),
        types_(types),
        exchanging_(exchanging),
        edits_(program, graph),
        wholes_(program, types, exchanging == Exchanging::kAll, &edits_),
        supplies_(program, types, &edits_),
        averages_(program, types, exchanging == Exchanging::kOwnBatches, &edits_) {
    for (const std::string& fetch : spec.fetches) fetches_.insert(Canonical(fetch));
    for (const RowNeed& need : types.needs) {
      if (need.kind == Need::kMoments || need.kind == Need::kCount ||
          need.kind == Need::kDraw || need.kind == Need::kAllRows ||
          need.kind == Need::kOwnRows ||
          (need.kind == Need::kGather && need.of == RowKind::kRows)) {
        exchanging_nodes_.insert(need.node);
      }
    }
    for (const auto& [tensor, type] : types.types) {
      if (!type.is(RowKind::kSlotted)) continue;
      const tf::NodeDef* const node = program.Find(ParseTensor(tensor).node);
      if (node != nullptr && node->op() == "UnsortedSegmentSum") {
        exchanging_nodes_.insert(node->name());  // ReduceSlots() depends on it
      }
    }
    for (const std::string& tensor : types.exchanges) {
      exchanging_nodes_.insert(std::string(ParseTensor(tensor).node));
    }
    for (const RowWrite& write : types.writes) {
      const tf::NodeDef* const variable = program.Find(write.variable);
      if (variable == nullptr) continue;
      const auto aggregation = variable->attr().find(kAggregationAttribute);
      if (aggregation != variable->attr().end() && aggregation->second.s() == "sum") {
        summed_.insert(write.node);
      }
    }
  }

  absl::Status Insert() {
    // Common draws and exchanges replace a tensor for all users, so they come first;
    // the other needs concern one input.
    for (const RowNeed& need : types_.needs) {
      if (need.kind != Need::kDraw || exchanging_ != Exchanging::kAll) continue;
      TF_RETURN_IF_ERROR(supplies_.DrawOnce(need.node));
    }
    for (const std::string& tensor : types_.exchanges) {
      TF_RETURN_IF_ERROR(Exchange(tensor, types_.types.at(tensor)));
    }
    for (const RowNeed& need : types_.needs) {
      if (need.kind == Need::kRescale || need.kind == Need::kDraw ||
          need.kind == Need::kTwoRows) {
        continue;
      }
      if (exchanging_ == Exchanging::kAll) {
        TF_RETURN_IF_ERROR(Supply(need));
        continue;
      }
      estimates_ = true;
      if (need.kind == Need::kWhole && exchanging_ != Exchanging::kOwnBatches &&
          !AddsUp(need)) {
        TF_RETURN_IF_ERROR(MakeWhole(need));
      }
    }
    if (exchanging_ != Exchanging::kNothing) {
      TF_RETURN_IF_ERROR(averages_.AverageWritten(exchanging_nodes_));
    }
    for (const RowNeed& need : types_.needs) {
      if (need.kind != Need::kRescale || exchanging_ == Exchanging::kOwnBatches ||
          averages_.averaged_before(need.node)) {
        continue;
      }
      if (exchanging_ != Exchanging::kAll && AddsUp(need)) continue;
      TF_RETURN_IF_ERROR(Rescale(need));
    }
    edits_.Finish();
    return absl::OkStatus();
  }

  InsertedExchanges inserted() const {
    return {estimates_, averages_.averaging_writes()};
  }

 private:
  absl::Status Supply(const RowNeed& need) {
    switch (need.kind) {
      case Need::kCount:
        return supplies_.CountAll(need.node);
      case Need::kGather:
        return Gather(need);
      case Need::kWhole:
        return MakeWhole(need);
      case Need::kAllRows:
        return supplies_.TakeAllRows(need);
      case Need::kOwnRows:
        return supplies_.TakeOwnRows(need);
      case Need::kAssumed:
        return edits_.Misplaced(need.node,
                                "takes indices that may point outside of their row");
      case Need::kDraw:
      case Need::kMoments:
      case Need::kRescale:
      case Need::kTwoRows:
        break;
    }
    return absl::OkStatus();
  }

  // Replaces an input computed from a learner's numbers of rows by that of all rows.
  absl::Status MakeWhole(const RowNeed& need) {
    tf::NodeDef* const node = edits_.Node(need.node);
    if (node == nullptr)
      return edits_.Misplaced(need.node, "needs the number of rows inside a function");
    const std::string before = Canonical(program_.Find(need.node)->input(need.input));
    TF_ASSIGN_OR_RETURN(std::string whole, wholes_.Of(before));
    *node->mutable_input(need.input) = std::move(whole);
    return absl::OkStatus();
  }

  // Returns whether another exchange depends on the tensor or waits for it.
  bool LeadsToExchanges(const std::string& tensor) const {
    return edits_.LeadsTo(tensor, [this](const std::string& node, bool waits) {
      return exchanging_nodes_.contains(node) ||
             (!waits && averages_.writes().contains(node));
    });
  }

  // Returns whether a variable is written from the tensor whose value is the sum of the
  // learners' values.
  bool LeadsToSums(const std::string& tensor) const {
    return edits_.LeadsTo(tensor, [this](const std::string& node, bool waits) {
      return !waits && summed_.contains(node);
    });
  }

  // Returns whether an input that needs a scale is a learner's part of such a sum.
  bool AddsUp(const RowNeed& need) const {
    const tf::NodeDef* const node = program_.Find(need.node);
    return node != nullptr && (summed_.contains(need.node) ||
                               LeadsToSums(Canonical(node->input(need.input))));
  }

  absl::Status Exchange(const std::string& tensor, const RowType& type) {
    const TensorName name = ParseTensor(tensor);
    if (exchanging_ == Exchanging::kNothing) return Estimate(tensor, type);
    const auto exchangeable = edits_.Exchangeable(name.node);
    if (exchanging_ != Exchanging::kAll && !exchangeable.ok()) {
      return Estimate(tensor, type);
    }
    if (!exchangeable.ok() && program_.Find(name.node) != nullptr) {
      if (const auto branches = BranchesOf(program_, name.node)) {
        return ExchangeInBranch(tensor, type, *branches);
      }
    }
    TF_RETURN_IF_ERROR(exchangeable.status());
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_.TypeOf(tensor));
    if (type.is(RowKind::kSum) && CanBeReduced(dtype) && !LeadsToExchanges(tensor)) {
      return averages_.Average(tensor, type);
    }
    if (exchanging_ != Exchanging::kAll) return Estimate(tensor, type);
    const std::string made = edits_.NameBeside(name, "exchange");
    TF_RETURN_IF_ERROR(
        edits_.AddExchange(made, name, dtype, HowOf(type.kind), type.exponent));
    edits_.Replace(tensor, made);
    return absl::OkStatus();
  }

  absl::Status ExchangeInBranch(const std::string& tensor, const RowType& type,
                                const std::vector<Branch>& branches) {
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_.TypeOf(tensor));
    TF_ASSIGN_OR_RETURN(const std::string made,
                        edits_.AddExchangeInBranch(ParseTensor(tensor), branches, dtype,
                                                   HowOf(type.kind), type.exponent));
    edits_.Replace(tensor, made);
    return absl::OkStatus();
  }

  absl::Status PartInFunction(absl::string_view node) const {
    return edits_.Misplaced(
        node, "is of a learner's rows in a function, where nothing scales it to all");
  }

  // A learner's rows estimate a mean directly, and their part of a sum.
  absl::Status Estimate(const std::string& tensor, const RowType& type) {
    estimates_ = true;
    if (!type.is(RowKind::kSum) || averages_.FactorOf(type) == 0 ||
        LeadsToSums(tensor)) {
      return absl::OkStatus();
    }
    const TensorName name = ParseTensor(tensor);
    if (program_.Find(name.node) == nullptr) return PartInFunction(name.node);
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_.TypeOf(tensor));
    const std::string made = edits_.NameBeside(name, "estimate");
    TF_RETURN_IF_ERROR(edits_.AddRescale(made, name, dtype, averages_.FactorOf(type)));
    edits_.Replace(tensor, made);
    return absl::OkStatus();
  }

  absl::Status Rescale(const RowNeed& need) {
    tf::NodeDef* node = edits_.Node(need.node);
    if (node == nullptr) return PartInFunction(need.node);
    const std::string before = Canonical(program_.Find(need.node)->input(need.input));
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_.TypeOf(before));
    const std::string made = absl::StrCat(need.node, "/TensorBow.rescale.", need.input);
    // Scales before a reduction that has been inserted.
    int input = need.input;
    if (tf::NodeDef* const reduction = averages_.ReductionBefore(need.node)) {
      node = reduction;
      input = 0;
    }
    if (std::optional<int> factor = LargeFactor(*node, input, &node)) input = *factor;
    const TensorName now = edits_.InputNow(*node, input);
    const std::string source(now.node);
    TF_RETURN_IF_ERROR(
        edits_.AddRescale(made, {source, now.index, false}, dtype, -need.exponent));
    *node->mutable_input(input) = made;
    return absl::OkStatus();
  }

  // Returns the factor to scale instead of a large product, which FuseProducts() then
  // computes in the update; nullopt if the input is no such product. Sets
  // `*product_node` to the product.
  std::optional<int> LargeFactor(const tf::NodeDef& user, int input,
                                 tf::NodeDef** product_node) {
    std::string tensor = Canonical(user.input(input));
    tf::NodeDef* product = edits_.Node(ParseTensor(tensor).node);
    const auto is_used_once = [this](const std::string& t) {
      return !fetches_.contains(t) && edits_.NumUsers(t) == 1;
    };
    while (product != nullptr && product->op() == "Identity" && is_used_once(tensor)) {
      tensor = Canonical(product->input(0));
      product = edits_.Node(ParseTensor(tensor).node);
    }
    const auto type = types_.types.find(tensor);
    if (product == nullptr || product->op() != "MatMul" || !is_used_once(tensor) ||
        type == types_.types.end() ||
        !CanFuseProduct(averages_.ShapeOf(type->second)) ||
        FactsOf(user.op()).optimiser == OptimiserKind::kNone) {
      return std::nullopt;
    }
    *product_node = product;
    return 1;
  }

  // Makes a write of slices write those of all learners.
  absl::Status Gather(const RowNeed& need) {
    TF_RETURN_IF_ERROR(edits_.Exchangeable(need.node).status());
    if (need.of == RowKind::kSlots || need.of == RowKind::kSlotted) {
      const std::string input = Canonical(program_.Find(need.node)->input(need.input));
      return ReduceSlots(types_.types.at(input).variable);
    }
    return supplies_.GatherSlices(need);
  }

  // Replaces the slices of a gradient, added up by the distinct indices that `unique`
  // finds, by those of all learners.
  absl::Status ReduceSlots(const std::string& unique) {
    if (!reduced_slots_.insert(unique).second) return absl::OkStatus();
    TF_RETURN_IF_ERROR(edits_.Exchangeable(unique).status());
    std::string sum;
    for (const std::string& name : edits_.NodesOf("UnsortedSegmentSum")) {
      const auto type = types_.types.find(absl::StrCat(name, ":0"));
      if (type == types_.types.end() || !type->second.is(RowKind::kSlotted) ||
          type->second.variable != unique) {
        continue;
      }
      if (!sum.empty())
        return edits_.Misplaced(unique, "has slices that are added up twice");
      sum = name;
    }
    if (sum.empty())
      return edits_.Misplaced(unique, "has slices that are not added up");
    TF_RETURN_IF_ERROR(edits_.Exchangeable(sum).status());
    const std::string values = absl::StrCat(sum, ":0"),
                      slots = absl::StrCat(unique, ":0");
    if (LeadsToExchanges(values))
      return edits_.Misplaced(sum,
                              "has a result that is computed with before the update");
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_.TypeOf(values));
    TF_ASSIGN_OR_RETURN(const tf::DataType index_type, edits_.TypeOf(slots));
    const std::string made = absl::StrCat(sum, "/TensorBow.rows");
    TensorName own = {sum, 0, false};
    const std::string rescaled = absl::StrCat(made, "/rescaled");
    const int factor = averages_.FactorOf(types_.types.at(values));
    if (factor != 0) {
      TF_RETURN_IF_ERROR(edits_.AddRescale(rescaled, own, dtype, factor));
      own = {rescaled, 0, false};
    }
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kReduceRows)
                           .Input(own.node, own.index, dtype)
                           .Input(unique, 0, index_type)
                           .Attr("index", 0)
                           .Finalize(&edits_.Add()));
    // The sum itself, and what looks up the values of indices, keep the learner's own.
    auto makers = edits_.MakersOf(sum);
    for (const auto& [tensor, type] : types_.types) {
      if (type.is(RowKind::kOfSlots)) makers.emplace(ParseTensor(tensor).node);
    }
    edits_.Replace(values, absl::StrCat(made, ":0"));
    edits_.Replace(slots, absl::StrCat(made, ":1"), makers);
    return absl::OkStatus();
  }

  const ProgramGraph& program_;
  const RowTypes& types_;
  const Exchanging exchanging_;
  RunEdits edits_;
  WholeNumbers wholes_;
  RowSupplies supplies_;
  SumAverages averages_;
  bool estimates_ = false;
  absl::flat_hash_set<std::string> fetches_;  // tensors
  // Nodes that exchange values, or whose values are exchanged.
  absl::flat_hash_set<std::string> exchanging_nodes_;
  absl::flat_hash_set<std::string> summed_;  // nodes that write sums over learners
  std::set<std::string> reduced_slots_;      // nodes that find distinct indices
};

}  // namespace

absl::StatusOr<InsertedExchanges> InsertExchanges(const ProgramGraph& graph,
                                                  const RunSpec& spec,
                                                  const RowTypes& types,
                                                  Exchanging exchanging,
                                                  ProgramGraph* exchanged) {
  tf::GraphDef rewritten;
  TF_RETURN_IF_ERROR(graph.Closure(spec, &rewritten));
  Inserter inserter(graph, spec, types, exchanging, &rewritten);
  TF_RETURN_IF_ERROR(inserter.Insert());
  TF_RETURN_IF_ERROR(exchanged->Extend(rewritten));
  return inserter.inserted();
}

}  // namespace tensorbow
