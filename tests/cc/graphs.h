// Small graphs for tests, written node by node.
#ifndef TENSORBOW_TESTS_CC_GRAPHS_H_
#define TENSORBOW_TESTS_CC_GRAPHS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/log/absl_check.h"
#include "google/protobuf/text_format.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

// Attributes by name, in protobuf's text format.
using Attributes = std::map<std::string, std::string>;

// Returns the default of an attribute: DT_FLOAT, the shape of a scalar, 0.5.
inline tensorflow::AttrValue UnnamedAttribute(const std::string& type) {
  tensorflow::AttrValue value;
  if (type == "type") value.set_type(tensorflow::DT_FLOAT);
  if (type == "shape") value.mutable_shape();
  if (type == "tensor") {
    value.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
    value.mutable_tensor()->mutable_tensor_shape();
    value.mutable_tensor()->add_float_val(0.5);
  }
  return value;
}

// Makes a node of a registered op with all its attributes.
inline tensorflow::NodeDef NodeOf(const std::string& name, const std::string& op,
                                  const std::vector<std::string>& inputs = {},
                                  const Attributes& attributes = {}) {
  tensorflow::NodeDef node;
  node.set_name(name);
  node.set_op(op);
  for (const std::string& input : inputs) node.add_input(input);
  for (const auto& [key, text] : attributes) {
    ABSL_CHECK(google::protobuf::TextFormat::ParseFromString(
        text, &(*node.mutable_attr())[key]))
        << text;
  }
  const tensorflow::OpDef* definition = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(op, &definition).ok()) {
    return node;  // a function
  }
  for (const auto& attribute : definition->attr()) {
    if (attribute.has_default_value() || node.attr().contains(attribute.name())) {
      continue;
    }
    (*node.mutable_attr())[attribute.name()] = UnnamedAttribute(attribute.type());
  }
  tensorflow::AddDefaultsToNodeDef(*definition, &node);
  return node;
}

inline tensorflow::GraphDef GraphOf(const std::vector<tensorflow::NodeDef>& nodes) {
  tensorflow::GraphDef graph;
  graph.mutable_versions()->set_producer(1395);
  for (const tensorflow::NodeDef& node : nodes) *graph.add_node() = node;
  return graph;
}

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_GRAPHS_H_
