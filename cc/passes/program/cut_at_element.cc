#include "cc/passes/program/cut_at_element.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_kinds.h"
#include "cc/graph/shapes.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::StatusOr<bool> CutAtElement(const ProgramGraph& graph, const RunSpec& spec,
                                  ProgramGraph* cut) {
  std::vector<const tf::NodeDef*> nodes;
  absl::Status status = graph.Needed(spec, &nodes);
  std::set<std::string> needed;
  for (const tf::NodeDef* node : nodes) needed.insert(node->name());
  std::set<std::string> fed;
  for (const std::string& feed : spec.feeds) {
    const tf::NodeDef* const node = graph.Find(ParseTensor(feed).node);
    if (node == nullptr || needed.count(node->name()) > 0) continue;
    if (TakesData(node->op()) || CallsPython(node->op()) ||
        node->op() == "DeserializeSparse") {
      fed.insert(node->name());
    }
  }
  tf::GraphDef closure;
  status.Update(graph.Closure(spec, &closure));
  if (!status.ok()) return status;
  if (fed.empty()) return false;
  for (tf::NodeDef& node : *closure.mutable_node()) {
    if (fed.count(node.name()) == 0) continue;
    const tf::OpDef* op = nullptr;
    tf::DataTypeVector types;
    status.Update(graph.functions().LookUpOpDef(node.op(), &op));
    if (status.ok()) status.Update(tf::OutputTypesForNode(node, *op, &types));
    if (!status.ok()) return status;
    RunSpec outputs;
    for (size_t i = 0; i < types.size(); ++i) {
      outputs.fetches.push_back(absl::StrCat(node.name(), ":", i));
    }
    const auto known = InferShapes(graph, outputs);
    std::vector<tf::PartialTensorShape> shapes;
    for (const std::string& output : outputs.fetches)
      shapes.push_back(known.at(output));
    const std::string device = node.device();
    status.Update(tf::NodeDefBuilder(node.name(), kElement)
                      .Attr("output_types", types)
                      .Attr("output_shapes", shapes)
                      .Device(device)
                      .Finalize(&node));
    if (!status.ok()) return status;
  }
  status = cut->Extend(closure);
  if (!status.ok()) return status;
  return true;
}

}  // namespace tensorbow
