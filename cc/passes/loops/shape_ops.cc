#include "cc/passes/loops/shape_ops.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "cc/graph/downstream.h"
#include "cc/passes/loops/function_copies.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using tf::shape_inference::DimensionHandle;
using tf::shape_inference::InferenceContext;

bool IsSame(DimensionHandle a, DimensionHandle b) {
  return a.SameHandle(b) ||
         (InferenceContext::ValueKnown(a) && InferenceContext::ValueKnown(b) &&
          InferenceContext::Value(a) == InferenceContext::Value(b));
}

bool IsOne(DimensionHandle a) {
  return InferenceContext::ValueKnown(a) && InferenceContext::Value(a) == 1;
}

bool IsMany(DimensionHandle a) {
  return InferenceContext::ValueKnown(a) && InferenceContext::Value(a) > 1;
}

// Returns a vector of integers of one of TensorFlow's types for shapes.
tf::Tensor VectorOf(const std::vector<int>& values, tf::DataType type) {
  tf::Tensor vector(type, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == tf::DT_INT32) {
      vector.vec<int>()(i) = values[i];
    } else {
      vector.vec<int64_t>()(i) = values[i];
    }
  }
  return vector;
}

}  // namespace

absl::Status ShapeOps::Visit(tf::Node* node) {
  const std::string& op = node->type_string();
  if (op == "Fill") return Fill(*node);
  if (op == "BroadcastGradientArgs") return Axes(node);
  if (op == "ConcatOffset") return Offsets(node);
  if (op == "Slice") return Slice(node);
  if (op == "Sum") Sum(node);
  if (op == "Reshape") Reshape(node);
  return absl::OkStatus();
}

std::optional<ShapeOps::Shape> ShapeOps::ShapeOf(const tf::OutputTensor& tensor) const {
  InferenceContext* const context = values_.Context(*tensor.node);
  if (context == nullptr) return std::nullopt;
  const auto shape = context->output(tensor.index);
  if (!context->RankKnown(shape)) return std::nullopt;
  Shape dimensions;
  for (int i = 0; i < context->Rank(shape); ++i) {
    dimensions.push_back(context->Dim(shape, i));
  }
  return dimensions;
}

std::optional<DimensionHandle> ShapeOps::DimensionIn(const tf::OutputTensor& tensor) {
  const tf::Node& node = *tensor.node;
  if (const std::optional<int> value = values_.Integer(tensor)) {
    return values_.Context(node)->MakeDim(*value);
  }
  if (node.type_string() != "StridedSlice") return std::nullopt;
  const std::optional<Shape> shape = ShapeIn(values_.InputOf(node, 0));
  const std::optional<tf::Tensor> begin = values_.Constant(values_.InputOf(node, 1));
  int shrinks = 0;
  if (!shape.has_value() || !begin.has_value() || begin->dtype() != tf::DT_INT32 ||
      begin->NumElements() != 1 ||
      !tf::GetNodeAttr(node.attrs(), "shrink_axis_mask", &shrinks).ok() ||
      shrinks != 1) {
    return std::nullopt;
  }
  const int index = begin->flat<int>()(0);
  const int rank = shape->size();
  if (index < -rank || index >= rank) return std::nullopt;
  return (*shape)[index < 0 ? index + rank : index];
}

std::optional<ShapeOps::Shape> ShapeOps::ShapeIn(const tf::OutputTensor& tensor) {
  const tf::Node& node = *tensor.node;
  const std::string& op = node.type_string();
  if (op == "Shape" || op == "ShapeN") {
    return ShapeOf(values_.InputOf(node, tensor.index));
  }
  if (op == "Pack") {
    Shape shape;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const std::optional<Dimension> dimension = DimensionIn(values_.InputOf(node, i));
      if (!dimension.has_value()) return std::nullopt;
      shape.push_back(*dimension);
    }
    return shape;
  }
  const std::optional<tf::Tensor> value = values_.Constant(tensor);
  if (!value.has_value() || value->dims() != 1 || value->dtype() != tf::DT_INT32) {
    return std::nullopt;
  }
  Shape shape;
  for (int i = 0; i < value->NumElements(); ++i) {
    const int size = value->vec<int>()(i);
    if (size < 0) return std::nullopt;
    shape.push_back(values_.Context(node)->MakeDim(size));
  }
  return shape;
}

absl::Status ShapeOps::Fill(const tf::Node& node) {
  TF_RETURN_IF_ERROR(values_.Infer(&node));
  const std::optional<Shape> shape = ShapeIn(values_.InputOf(node, 0));
  if (!shape.has_value()) return absl::OkStatus();
  InferenceContext* const context = values_.Context(node);
  context->set_output(0, context->MakeShape(*shape));
  return absl::OkStatus();
}

absl::Status ShapeOps::Axes(tf::Node* node) {
  std::optional<Shape> shapes[2];
  for (int k = 0; k < 2; ++k) {
    shapes[k] = ShapeIn(values_.InputOf(*node, k));
    if (!shapes[k].has_value()) return absl::OkStatus();
  }
  const int rank = std::max(shapes[0]->size(), shapes[1]->size());
  std::vector<int> axes[2];
  for (int axis = 0; axis < rank; ++axis) {
    std::optional<Dimension> sizes[2];  // nullopt: the tensor has no such axis
    for (int k = 0; k < 2; ++k) {
      const int own = axis - rank + static_cast<int>(shapes[k]->size());
      if (own >= 0) sizes[k] = (*shapes[k])[own];
    }
    if (sizes[0].has_value() && sizes[1].has_value()) {
      if (IsSame(*sizes[0], *sizes[1])) continue;
      if (IsOne(*sizes[0]) && IsMany(*sizes[1])) {
        axes[0].push_back(axis);
      } else if (IsMany(*sizes[0]) && IsOne(*sizes[1])) {
        axes[1].push_back(axis);
      } else {
        return absl::OkStatus();
      }
    } else {
      axes[sizes[0].has_value() ? 1 : 0].push_back(axis);
    }
  }
  for (int k = 0; k < 2; ++k) {
    TF_RETURN_IF_ERROR(
        values_.ReplaceByConstant({node, k}, VectorOf(axes[k], node->output_type(k))));
  }
  return absl::OkStatus();
}

absl::Status ShapeOps::Offsets(tf::Node* node) {
  const std::optional<int> axis = values_.Integer(values_.InputOf(*node, 0));
  if (!axis.has_value()) return absl::OkStatus();
  std::vector<std::vector<int>> offsets;
  int offset = 0;
  for (int i = 1; i < node->num_inputs(); ++i) {
    const std::optional<Shape> shape = ShapeIn(values_.InputOf(*node, i));
    if (!shape.has_value()) return absl::OkStatus();
    const int rank = shape->size(), own = *axis < 0 ? *axis + rank : *axis;
    if (own < 0 || own >= rank || !InferenceContext::ValueKnown((*shape)[own])) {
      return absl::OkStatus();
    }
    offsets.emplace_back(rank, 0);
    offsets.back()[own] = offset;
    offset += InferenceContext::Value((*shape)[own]);
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    TF_RETURN_IF_ERROR(values_.ReplaceByConstant(
        {node, static_cast<int>(i)}, VectorOf(offsets[i], node->output_type(i))));
  }
  return absl::OkStatus();
}

absl::Status ShapeOps::Slice(tf::Node* node) {
  const std::optional<Shape> whole = ShapeOf(values_.InputOf(*node, 0));
  const std::optional<tf::Tensor> begin = values_.Constant(values_.InputOf(*node, 1));
  const tf::OutputTensor size = values_.InputOf(*node, 2);
  const std::optional<Shape> part = ShapeIn(size);
  if (size.node->IsConstant() || !whole.has_value() || !part.has_value() ||
      !begin.has_value() || begin->dtype() != tf::DT_INT32 ||
      begin->NumElements() != static_cast<int64_t>(part->size())) {
    return absl::OkStatus();
  }
  std::vector<int> sizes;
  for (size_t i = 0; i < part->size(); ++i) {
    if (InferenceContext::ValueKnown((*part)[i])) {
      sizes.push_back(InferenceContext::Value((*part)[i]));
    } else if (IsSame((*part)[i], (*whole)[i]) && begin->vec<int>()(i) == 0) {
      sizes.push_back(-1);  // all
    } else {
      return absl::OkStatus();
    }
  }
  return values_.SetInput(node, 2, VectorOf(sizes, tf::DT_INT32));
}

void ShapeOps::Sum(tf::Node* node) {
  const std::optional<tf::Tensor> axes = values_.Constant(values_.InputOf(*node, 1));
  if (axes.has_value() && axes->NumElements() == 0) {
    values_.Replace({node, 0}, values_.InputOf(*node, 0));
  }
}

void ShapeOps::Reshape(tf::Node* node) {
  const std::optional<Shape> from = ShapeOf(values_.InputOf(*node, 0));
  const std::optional<Shape> to = ShapeIn(values_.InputOf(*node, 1));
  if (from.has_value() && to.has_value() &&
      std::equal(from->begin(), from->end(), to->begin(), to->end(), IsSame)) {
    values_.Replace({node, 0}, values_.InputOf(*node, 0));
  }
}

absl::StatusOr<bool> SimplifyShapes(TaskGraph* task) {
  tf::Graph* const graph = task->parts[0].graph.get();
  const auto nodes = graph->op_nodes();
  if (std::none_of(nodes.begin(), nodes.end(), [](const tf::Node* node) {
        return node->type_string() == "BroadcastGradientArgs";
      })) {
    return false;
  }
  const NodeSet conditional = Conditional(*graph);
  std::vector<tf::Node*> order;
  tf::GetReversePostOrder(*graph, &order, tf::NodeComparatorName());
  std::unordered_set<const tf::Node*> ends;
  KnownValues values(graph);
  ShapeOps shapes(&values);
  for (tf::Node* node : order) {
    if (!node->IsOp()) continue;
    if (IsEnd(*node)) ends.insert(node);
    TF_RETURN_IF_ERROR(TakeCurrentInputs(values, graph, node));
    if (conditional.count(node) == 0) TF_RETURN_IF_ERROR(shapes.Visit(node));
    TF_RETURN_IF_ERROR(values.Infer(node));
  }
  tf::PruneForReverseReachability(graph, std::move(ends));
  tf::FixupSourceAndSinkEdges(graph);
  return true;
}

}  // namespace tensorbow
