#include "cc/graph/shapes.h"

#include <vector>

#include "cc/graph/shape_functions.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

namespace tf = ::tensorflow;

std::map<std::string, tf::PartialTensorShape> InferShapes(const ProgramGraph& program,
                                                          const RunSpec& spec) {
  std::map<std::string, tf::PartialTensorShape> shapes;
  for (const std::string& feed : spec.feeds) shapes[feed];
  for (const std::string& fetch : spec.fetches) shapes[fetch];

  RunSpec described;  // without targets, which do not matter for these shapes
  described.feeds = spec.feeds;
  described.fetches = spec.fetches;
  tf::GraphDef closure;
  if (!program.Closure(described, &closure).ok()) return shapes;
  tf::Graph graph(tf::OpRegistry::Global());
  const ShapeFunctions ops(graph.op_registry());
  tf::ShapeRefiner refiner(closure.versions().producer(), &ops);
  tf::ImportGraphDefOptions options;
  options.validate_colocation_constraints = false;
  if (!tf::ImportGraphDef(options, closure, &graph, &refiner).ok()) return shapes;

  const auto nodes = graph.BuildNodeNameIndex();
  for (auto& [name, shape] : shapes) {
    const TensorName tensor = ParseTensor(name);
    const auto node = nodes.find(std::string(tensor.node));
    if (node == nodes.end()) continue;
    tf::shape_inference::InferenceContext* const context =
        refiner.GetContext(node->second);
    if (context == nullptr || tensor.index >= context->num_outputs()) continue;
    const tf::shape_inference::ShapeHandle handle = context->output(tensor.index);
    if (!context->RankKnown(handle)) continue;
    std::vector<int64_t> sizes;
    for (int d = 0; d < context->Rank(handle); ++d) {
      sizes.push_back(context->Value(context->Dim(handle, d)));
    }
    shape = tf::PartialTensorShape(sizes);
  }
  return shapes;
}

}  // namespace tensorbow
