#include "cc/rewrite/scale_gradients.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/scaled_tensor.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::Status ScaleGradients(const ProgramGraph& program, const RunSpec& spec,
                            const std::set<std::string>& tensors,
                            ProgramGraph* scaled) {
  tf::GraphDef graph;
  TF_RETURN_IF_ERROR(program.Closure(spec, &graph));
  std::map<std::string, std::string> products;
  std::vector<tf::NodeDef> added;
  for (const std::string& tensor : tensors) {
    const TensorName name = ParseTensor(tensor);
    const tf::NodeDef* const node = program.Find(name.node);
    const tf::OpDef* op = nullptr;
    if (node == nullptr) return absl::NotFoundError(tensor);
    TF_RETURN_IF_ERROR(program.functions().LookUpOpDef(node->op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
    const tf::DataType dtype = types.at(name.index);
    const std::string product =
        absl::StrCat(name.node, "/TensorBow.scaled.", name.index);
    TF_RETURN_IF_ERROR(
        AppendScaled(name, dtype, "TensorBowShardScale", product, &added));
    products[tensor] = product;
  }
  for (tf::NodeDef& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      const TensorName name = ParseTensor(input);
      if (name.control) continue;
      const auto product = products.find(absl::StrCat(name.node, ":", name.index));
      if (product != products.end()) input = product->second;
    }
  }
  for (tf::NodeDef& node : added) *graph.add_node() = std::move(node);
  return scaled->Extend(graph);
}

}  // namespace tensorbow
