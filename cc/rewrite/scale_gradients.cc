#include "cc/rewrite/scale_gradients.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/shapes.h"
#include "cc/passes/program/scaled_tensor.h"
#include "cc/passes/task/fuse_products.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Those of `tensors` that FuseProducts() can compute in updates.
std::set<std::string> LargeProducts(const ProgramGraph& program, const RunSpec& spec,
                                    const std::set<std::string>& tensors) {
  RunSpec looked_at = spec;
  looked_at.fetches.clear();
  for (const std::string& tensor : tensors) {
    const tf::NodeDef* const node = program.Find(ParseTensor(tensor).node);
    if (node == nullptr || node->op() != "MatMul") continue;
    looked_at.fetches.push_back(Canonical(tensor));
  }
  std::set<std::string> large;
  if (looked_at.fetches.empty()) return large;
  for (const auto& [tensor, shape] : InferShapes(program, looked_at)) {
    if (CanFuseProduct(shape)) large.insert(tensor);
  }
  return large;
}

class Scaler {
 public:
  // `large_products`: of LargeProducts().
  Scaler(const ProgramGraph& program, const RunSpec& spec,
         std::set<std::string> large_products, tf::GraphDef* graph)
      : program_(program), large_products_(std::move(large_products)), graph_(graph) {
    for (const std::string& fetch : spec.fetches) fetches_.insert(Canonical(fetch));
    for (int i = 0; i < graph->node_size(); ++i) {
      nodes_[graph->node(i).name()] = i;
      for (const std::string& input : graph->node(i).input()) {
        if (!ParseTensor(input).control) users_[Canonical(input)].push_back(i);
      }
    }
  }

  absl::Status Scale(const std::set<std::string>& tensors) {
    for (const std::string& tensor : tensors) NoteMade(tensor);
    for (const std::string& fetch : fetches_) NoteFetched(fetch);
    for (const std::string& tensor : tensors)
      leads_elsewhere_[Canonical(tensor)] = false;
    for (const std::string& tensor : tensors) {
      TF_RETURN_IF_ERROR(CanScaleFactor(Canonical(tensor)) ? ScaleFactor(tensor)
                                                           : AddProduct(tensor));
    }
    while (!pending_.empty()) {
      const std::string tensor = std::move(pending_.back());
      pending_.pop_back();
      for (int user : users_[tensor]) {
        tf::NodeDef* node = graph_->mutable_node(user);
        if (unscaled_.count(node->name()) > 0) {
          if (!LeadsElsewhere(*node)) continue;
          TF_RETURN_IF_ERROR(CopyOf(*node, &node));
        }
        for (std::string& input : *node->mutable_input()) {
          if (ParseTensor(input).control || Canonical(input) != tensor) continue;
          input = scaled_.at(tensor);
        }
      }
    }
    for (auto& [name, copy] : copies_) *graph_->add_node() = std::move(copy);
    for (tf::NodeDef& node : added_) *graph_->add_node() = std::move(node);
    return absl::OkStatus();
  }

 private:
  // Notes what a gradient is computed from: that is not to be scaled, since it would be
  // twice.
  void NoteMade(const std::string& tensor) {
    std::vector<absl::string_view> open = {ParseTensor(tensor).node};
    while (!open.empty()) {
      const tf::NodeDef* const node = program_.Find(open.back());
      open.pop_back();
      if (node == nullptr || !unscaled_.insert(node->name()).second) continue;
      for (const std::string& input : node->input()) {
        if (!ParseTensor(input).control) open.push_back(ParseTensor(input).node);
      }
    }
  }

  // Whether the tensor is a large product, and all consumers are to get it scaled.
  bool CanScaleFactor(const std::string& tensor) {
    const auto& users = users_[tensor];
    return large_products_.count(tensor) > 0 && fetches_.count(tensor) == 0 &&
           std::none_of(users.begin(), users.end(), [&](int user) {
             return unscaled_.count(graph_->node(user).name()) > 0;
           });
  }

  // Scales the right factor of a gradient of weights, which has a row for each of the
  // feed's. The product is computed in the update then (FuseProducts).
  absl::Status ScaleFactor(const std::string& tensor) {
    const std::string node(ParseTensor(tensor).node);
    tf::NodeDef* const product = graph_->mutable_node(nodes_.at(node));
    tf::DataType dtype;
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(*product, "T", &dtype));
    const std::string factor = absl::StrCat(node, "/TensorBow.scaled_factor");
    TF_RETURN_IF_ERROR(AppendScaled(ParseTensor(product->input(1)), dtype,
                                    "TensorBowShardScale", factor, &added_));
    product->set_input(1, factor);
    return absl::OkStatus();
  }

  // Notes what a fetch is computed from without a variable's being written: what proved
  // how its values are combined computed it from gradients as they are.
  void NoteFetched(const std::string& fetch) {
    std::vector<absl::string_view> open = {ParseTensor(fetch).node};
    std::set<std::string> seen;
    while (!open.empty()) {
      const tf::NodeDef* const node = program_.Find(open.back());
      open.pop_back();
      if (node == nullptr || IsPurpose(*node) || !seen.insert(node->name()).second) {
        continue;
      }
      unscaled_.insert(node->name());
      for (const std::string& input : node->input()) {
        if (!ParseTensor(input).control) open.push_back(ParseTensor(input).node);
      }
    }
  }

  absl::Status AddProduct(const std::string& tensor) {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* const node = program_.Find(name.node);
    const tf::OpDef* op = nullptr;
    if (node == nullptr) return absl::NotFoundError(tensor);
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
    const std::string product =
        absl::StrCat(name.node, "/TensorBow.scaled.", name.index);
    scaled_[Canonical(tensor)] = product;
    pending_.push_back(Canonical(tensor));
    return AppendScaled(name, types.at(name.index), "TensorBowShardScale", product,
                        &added_);
  }

  // Whether what the run is for, besides gradients and fetches, is computed from the
  // node, and not from those.
  bool LeadsElsewhere(const tf::NodeDef& node) {
    if (unscaled_.count(node.name()) == 0 && IsPurpose(node)) return true;
    bool leads = false;
    for (int i = 0; i < NumOutputs(node); ++i) {
      const std::string output = absl::StrCat(node.name(), ":", i);
      const auto [known, added] = leads_elsewhere_.emplace(output, false);  // in cycles
      if (added) {
        bool elsewhere = false;
        for (int user : users_[output]) elsewhere |= LeadsElsewhere(graph_->node(user));
        leads_elsewhere_[output] = elsewhere;
      }
      leads |= leads_elsewhere_[output];
    }
    return leads;
  }

  // Whether the node does something, to a variable for instance.
  bool IsPurpose(const tf::NodeDef& node) const {
    const tf::OpDef* op = nullptr;
    return !program_.functions().LookUpOpDef(node.op(), &op).ok() || HasEffects(*op);
  }

  int NumOutputs(const tf::NodeDef& node) const {
    const tf::OpDef* op = nullptr;
    tf::DataTypeVector types;
    const bool known = program_.functions().LookUpOpDef(node.op(), &op).ok() &&
                       tf::OutputTypesForNode(node, *op, &types).ok();
    return known ? static_cast<int>(types.size()) : 0;
  }

  // Of a node from which other gradients are computed as well: the copy computes what
  // is scaled.
  absl::Status CopyOf(const tf::NodeDef& node, tf::NodeDef** copy) {
    const auto [known, made] = copies_.try_emplace(node.name(), node);
    *copy = &known->second;
    if (!made) return absl::OkStatus();
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node.op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(node, *op, &types));
    if (op->is_stateful()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "'", node.name(), "' is for one gradient and on the way to others"));
    }
    (*copy)->set_name(absl::StrCat(node.name(), "/TensorBow.scaled"));
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string output = absl::StrCat(node.name(), ":", i);
      if (scaled_.count(output) > 0) continue;  // a gradient, too
      scaled_[output] = absl::StrCat((*copy)->name(), ":", i);
      pending_.push_back(output);
    }
    return absl::OkStatus();
  }

  const ProgramGraph& program_;
  const std::set<std::string> large_products_;
  tf::GraphDef* const graph_;
  std::map<std::string, int> nodes_;  // by name
  std::set<std::string> fetches_;
  std::map<std::string, std::vector<int>> users_;
  std::set<std::string> unscaled_;               // nodes
  std::map<std::string, bool> leads_elsewhere_;  // by tensor
  std::map<std::string, std::string> scaled_;    // by tensor
  std::vector<std::string> pending_;             // tensors that are to be replaced
  std::map<std::string, tf::NodeDef> copies_;    // by node
  std::vector<tf::NodeDef> added_;
};

}  // namespace

absl::Status ScaleGradients(const ProgramGraph& program, const RunSpec& spec,
                            const std::set<std::string>& tensors,
                            ProgramGraph* scaled) {
  tf::GraphDef graph;
  TF_RETURN_IF_ERROR(program.Closure(spec, &graph));
  Scaler scaler(program, spec, LargeProducts(program, spec, tensors), &graph);
  TF_RETURN_IF_ERROR(scaler.Scale(tensors));
  return scaled->Extend(graph);
}

}  // namespace tensorbow
