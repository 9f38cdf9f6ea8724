#include "cc/rewrite/scale_gradients.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/scaled_tensor.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

class Scaler {
 public:
  Scaler(const ProgramGraph& program, const RunSpec& spec, tf::GraphDef* graph)
      : program_(program), graph_(graph) {
    for (const std::string& fetch : spec.fetches) fetches_.insert(Canonical(fetch));
    for (int i = 0; i < graph->node_size(); ++i) {
      for (const std::string& input : graph->node(i).input()) {
        if (!ParseTensor(input).control) users_[Canonical(input)].push_back(i);
      }
    }
  }

  absl::Status Scale(const std::set<std::string>& tensors) {
    for (const std::string& tensor : tensors) NoteMade(tensor);
    for (const std::string& tensor : tensors)
      leads_elsewhere_[Canonical(tensor)] = false;
    for (const std::string& tensor : tensors) TF_RETURN_IF_ERROR(AddProduct(tensor));
    while (!pending_.empty()) {
      const std::string tensor = std::move(pending_.back());
      pending_.pop_back();
      for (int user : users_[tensor]) {
        tf::NodeDef* node = graph_->mutable_node(user);
        if (makes_gradients_.count(node->name()) > 0) {
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
      if (node == nullptr || !makes_gradients_.insert(node->name()).second) continue;
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

  // Whether what the run is for, besides gradients, is computed from the node, and not
  // from those.
  bool LeadsElsewhere(const tf::NodeDef& node) {
    if (makes_gradients_.count(node.name()) == 0 && IsPurpose(node)) return true;
    bool leads = false;
    for (int i = 0; i < NumOutputs(node); ++i) {
      const std::string output = absl::StrCat(node.name(), ":", i);
      const auto [known, added] = leads_elsewhere_.emplace(output, false);  // in cycles
      if (added) {
        bool elsewhere = fetches_.count(output) > 0;
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
    if (!program_.functions().LookUpOpDef(node.op(), &op).ok() || op->is_stateful()) {
      return true;
    }
    return std::any_of(op->input_arg().begin(), op->input_arg().end(),
                       [](const tf::OpDef::ArgDef& input) { return input.is_ref(); });
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
  tf::GraphDef* const graph_;
  std::set<std::string> fetches_;
  std::map<std::string, std::vector<int>> users_;
  std::set<std::string> makes_gradients_;        // nodes
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
  TF_RETURN_IF_ERROR(Scaler(program, spec, &graph).Scale(tensors));
  return scaled->Extend(graph);
}

}  // namespace tensorbow
