#include "cc/passes/loops/merge_products.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/node_inputs.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Outputs = std::vector<NodeOutput>;

// Concatenating fewer terms costs more than it saves.
constexpr size_t kFewestTerms = 4;

bool Flag(const tf::Node& node, const char* name) {
  bool value = false;
  return tf::TryGetNodeAttr(node.attrs(), name, &value) && value;
}

bool IsSumOfFloats(const tf::Node& node) {
  return node.type_string() == "AddN" && tf::DataTypeIsFloating(node.output_type(0));
}

// Returns whether the node is aᵀ · b.
bool IsProduct(const tf::Node& node) {
  return node.type_string() == "MatMul" && Flag(node, "transpose_a") &&
         !Flag(node, "transpose_b");
}

// Returns the sum over rows that `term` is or reshapes; null if there is none.
const tf::Node* SumOverRows(const tf::Node& term) {
  const bool reshapes =
      term.type_string() == "Reshape" && InputOf(term, 1).node->IsConstant();
  const tf::Node* const sum = reshapes ? InputOf(term, 0).node : &term;
  if (sum->type_string() != "Sum" || Flag(*sum, "keep_dims") != reshapes)
    return nullptr;
  tf::Tensor axes;
  const bool over_rows =
      InputOf(*sum, 1).node->IsConstant() &&
      tf::GetNodeAttr(InputOf(*sum, 1).node->attrs(), "value", &axes).ok() &&
      axes.dtype() == tf::DT_INT32 && axes.NumElements() == 1 &&
      axes.flat<int>()(0) == 0;
  return over_rows ? sum : nullptr;
}

// Returns whether sums over the rows of concatenated inputs may replace such terms,
// which have one shape. Reshaped, they may have inputs of several ranks.
bool IsSumOverRows(const KnownValues& values, const tf::Node& term) {
  const tf::Node* const sum = SumOverRows(term);
  if (sum == nullptr || sum == &term) return sum != nullptr;
  const NodeOutput rows = InputOf(*sum, 0);
  return values.Rank({rows.node, rows.index}) == 2;
}

// Returns the only op that takes the node's output; null if there is none, or if an op
// waits for it.
const tf::Node* UserOf(const tf::Node& node) {
  const tf::Node* user = nullptr;
  for (const tf::Edge* edge : node.out_edges()) {
    if (edge->IsControlEdge() || user != nullptr) return nullptr;
    user = edge->dst();
  }
  return user;
}

// Collects the terms of nested sums.
void CollectTerms(const tf::Node& sum, Outputs* terms) {
  for (int i = 0; i < sum.num_inputs(); ++i) {
    const NodeOutput input = InputOf(sum, i);
    if (IsSumOfFloats(*input.node) && UserOf(*input.node) == &sum) {
      CollectTerms(*input.node, terms);
    } else {
      terms->push_back(input);
    }
  }
}

// Moves the terms that `fits` accepts, and that only a sum takes.
Outputs Take(const std::function<bool(const tf::Node&)>& fits, Outputs* terms) {
  Outputs taken;
  const auto others =
      std::stable_partition(terms->begin(), terms->end(), [&fits](NodeOutput term) {
        return fits(*term.node) && UserOf(*term.node) != nullptr;
      });
  if (others - terms->begin() >= static_cast<std::ptrdiff_t>(kFewestTerms)) {
    taken.assign(terms->begin(), others);
    terms->erase(terms->begin(), others);
  }
  return taken;
}

// Adds ops beside a sum.
class Builder {
 public:
  Builder(const tf::Node& sum, tf::Graph* graph) : sum_(sum), graph_(*graph) {}

  absl::StatusOr<tf::Node*> Add(tf::NodeBuilder builder) {
    tf::Node* node = nullptr;
    TF_RETURN_IF_ERROR(builder.Finalize(&graph_, &node));
    node->set_assigned_device_name(sum_.assigned_device_name());
    return node;
  }

  tf::NodeBuilder New(const char* op) {
    return tf::NodeBuilder(graph_.NewName(absl::StrCat(sum_.name(), "/", op)), op);
  }

  // Returns the rows of tensors, below each other.
  absl::StatusOr<tf::Node*> Concat(const Outputs& tensors) {
    std::vector<tf::NodeBuilder::NodeOut> rows;
    for (const NodeOutput& tensor : tensors)
      rows.emplace_back(tensor.node, tensor.index);
    TF_ASSIGN_OR_RETURN(
        tf::Node* const axis,
        Add(New("Const").Attr("dtype", tf::DT_INT32).Attr("value", tf::Tensor(0))));
    return Add(New("ConcatV2").Input(rows).Input(axis, 0));
  }

  absl::Status MergeProducts(Outputs* terms) {
    Outputs a, b;
    for (const NodeOutput& product : Take(IsProduct, terms)) {
      a.push_back(InputOf(*product.node, 0));
      b.push_back(InputOf(*product.node, 1));
    }
    if (a.empty()) return absl::OkStatus();
    TF_ASSIGN_OR_RETURN(tf::Node* const all_a, Concat(a));
    TF_ASSIGN_OR_RETURN(tf::Node* const all_b, Concat(b));
    TF_ASSIGN_OR_RETURN(
        tf::Node* const product,
        Add(New("MatMul").Input(all_a, 0).Input(all_b, 0).Attr("transpose_a", true)));
    terms->push_back({product, 0});
    return absl::OkStatus();
  }

  absl::Status MergeSums(const KnownValues& values, Outputs* terms) {
    Outputs rows;
    const Outputs sums = Take(
        [&values](const tf::Node& term) { return IsSumOverRows(values, term); }, terms);
    for (const NodeOutput& sum : sums)
      rows.push_back(InputOf(*SumOverRows(*sum.node), 0));
    if (rows.empty()) return absl::OkStatus();
    TF_ASSIGN_OR_RETURN(tf::Node* const all, Concat(rows));
    const tf::Node& first = *sums[0].node;
    const bool reshapes = first.type_string() == "Reshape";
    const NodeOutput axes = InputOf(*SumOverRows(first), 1);
    TF_ASSIGN_OR_RETURN(tf::Node * sum, Add(New("Sum")
                                                .Input(all, 0)
                                                .Input(axes.node, axes.index)
                                                .Attr("keep_dims", reshapes)));
    if (reshapes) {
      const NodeOutput shape = InputOf(first, 1);
      TF_ASSIGN_OR_RETURN(
          sum, Add(New("Reshape").Input(sum, 0).Input(shape.node, shape.index)));
    }
    terms->push_back({sum, 0});
    return absl::OkStatus();
  }

 private:
  const tf::Node& sum_;
  tf::Graph& graph_;
};

// Returns the sums that are no terms of others.
std::vector<tf::Node*> SumsIn(const tf::Graph& graph) {
  std::vector<tf::Node*> sums;
  for (tf::Node* node : graph.op_nodes()) {
    if (!IsSumOfFloats(*node)) continue;
    const tf::Node* const user = UserOf(*node);
    if (user == nullptr || !IsSumOfFloats(*user)) sums.push_back(node);
  }
  return sums;
}

}  // namespace

absl::StatusOr<bool> MergeProducts(const NodeSet& conditional,
                                   const KnownValues& values, tf::Graph* graph) {
  bool any = false;
  for (tf::Node* sum : SumsIn(*graph)) {
    if (conditional.count(sum) > 0) continue;
    Outputs terms;
    CollectTerms(*sum, &terms);
    Builder builder(*sum, graph);
    const size_t before = terms.size();
    TF_RETURN_IF_ERROR(builder.MergeProducts(&terms));
    TF_RETURN_IF_ERROR(builder.MergeSums(values, &terms));
    if (terms.size() == before) continue;
    any = true;
    std::vector<tf::NodeBuilder::NodeOut> all;
    for (const NodeOutput& term : terms) all.emplace_back(term.node, term.index);
    tf::Node* whole = terms[0].node;
    int index = terms[0].index;
    if (terms.size() > 1) {
      TF_ASSIGN_OR_RETURN(whole, builder.Add(builder.New("AddN").Input(all)));
      index = 0;
    }
    const std::vector<const tf::Edge*> users(sum->out_edges().begin(),
                                             sum->out_edges().end());
    for (const tf::Edge* edge : users) {
      if (edge->IsControlEdge()) {
        if (edge->dst()->IsOp()) graph->AddControlEdge(whole, edge->dst());
      } else {
        TF_RETURN_IF_ERROR(
            graph->UpdateEdge(whole, index, edge->dst(), edge->dst_input()));
      }
    }
  }
  return any;
}

}  // namespace tensorbow
