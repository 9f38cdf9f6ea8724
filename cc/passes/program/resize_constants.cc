#include "cc/passes/program/resize_constants.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/program/cut_at_element.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Sizes = std::vector<int64_t>;

// Returns whether that input of the op is the shape of a tensor.
bool TakesShape(absl::string_view op, int input) {
  static const auto* const first = new absl::flat_hash_set<absl::string_view>(
      {"Fill", "Empty", "BroadcastGradientArgs", "BroadcastArgs", "Conv2DBackpropInput",
       "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput", "AvgPoolGrad",
       "AvgPool3DGrad", "StridedSliceGrad", "RandomUniform", "RandomStandardNormal",
       "TruncatedNormal", "RandomUniformInt", "TensorListReserve", "EmptyTensorList"});
  static const auto* const second = new absl::flat_hash_set<absl::string_view>(
      {"Reshape", "Tile", "BroadcastTo", "BroadcastGradientArgs", "BroadcastArgs",
       "SparseToDense", "TensorListFromTensor"});
  if (op == "ConcatOffset") return input > 0;
  if (op == "Slice" || op == "ScatterNd") return input == 2;
  if (absl::StartsWith(op, "StatelessRandom") || op == "StatelessTruncatedNormal") {
    return input == 0;
  }
  return (input == 0 && first->contains(op)) || (input == 1 && second->contains(op));
}

std::optional<tf::Tensor> ValueOf(const tf::NodeDef* node) {
  if (node == nullptr || node->op() != "Const") return std::nullopt;
  tf::Tensor value;
  if (!value.FromProto(node->attr().at("value").tensor())) return std::nullopt;
  return value;
}

// Returns the elements of a vector, or a scalar, of integers.
std::optional<Sizes> IntegersOf(const tf::Tensor& value) {
  if (value.dims() > 1) return std::nullopt;
  Sizes sizes;
  for (int64_t i = 0; i < value.NumElements(); ++i) {
    if (value.dtype() == tf::DT_INT32) {
      sizes.push_back(value.flat<int32_t>()(i));
    } else if (value.dtype() == tf::DT_INT64) {
      sizes.push_back(value.flat<int64_t>()(i));
    } else {
      return std::nullopt;
    }
  }
  return sizes;
}

// Returns whether all elements have the same bytes.
bool IsUniform(const tf::Tensor& value) {
  if (!tf::DataTypeCanUseMemcpy(value.dtype()) || value.NumElements() == 0) {
    return false;
  }
  const auto* const bytes = static_cast<const char*>(value.data());
  const size_t size = tf::DataTypeSize(value.dtype());
  // Compares every element with the one before it.
  return std::equal(bytes, bytes + value.TotalBytes() - size, bytes + size);
}

void ForgetFirst(tf::TensorShapeProto* shape) {
  if (shape->dim_size() > 0) shape->mutable_dim(0)->set_size(-1);
}

class Rewriter {
 public:
  Rewriter(const ProgramGraph& program, const RunSpec& spec, const FixedRows& fixed)
      : program_(program), spec_(spec), fixed_(fixed) {}

  absl::Status Rewrite(ProgramGraph* any) {
    tf::GraphDef graph;
    TF_RETURN_IF_ERROR(program_.Closure(spec_, &graph));
    std::vector<const tf::NodeDef*> needed;
    TF_RETURN_IF_ERROR(program_.Needed(spec_, &needed));
    flat_.insert(needed.begin(), needed.end());
    for (const tf::NodeDef* node : needed) NoteVariable(*node);
    TF_RETURN_IF_ERROR(AddRows());
    for (tf::NodeDef& node : *graph.mutable_node()) {
      RelaxAttributes(&node);
      const tf::NodeDef* const original = program_.Find(node.name());
      if (flat_.count(original) == 0) continue;
      for (int i = 0; i < node.input_size(); ++i) {
        TF_RETURN_IF_ERROR(RewriteInput(&node, i));
      }
    }
    for (tf::NodeDef& node : added_) *graph.add_node() = std::move(node);
    return any->Extend(graph);
  }

 private:
  void NoteVariable(const tf::NodeDef& node) {
    if (!FactsOf(node.op()).creates_variable) return;
    Sizes shape;
    for (const auto& dim : node.attr().at("shape").shape().dim()) {
      shape.push_back(dim.size());
    }
    variables_.insert(std::move(shape));
  }

  // Returns the first size as a multiple of the rows; 0 if it is none, or if these are
  // the sizes of a variable.
  int64_t TimesRows(const Sizes& sizes) const {
    return variables_.count(sizes) > 0 ? 0 : TimesRowsOfAny(sizes);
  }
  // Returns that also if these are the sizes of a variable.
  int64_t TimesRowsOfAny(const Sizes& sizes) const {
    if (sizes.empty() || sizes[0] <= 0 || sizes[0] % fixed_.rows != 0) return 0;
    return sizes[0] / fixed_.rows;
  }

  static std::string Name(absl::string_view what) {
    return absl::StrCat("TensorBow.rows/", what);
  }

  absl::Status Add(tf::NodeDefBuilder builder) {
    return builder.Finalize(&added_.emplace_back(), /*consume=*/true);
  }

  absl::Status AddConst(const std::string& name, const tf::Tensor& value) {
    return Add(tf::NodeDefBuilder(name, "Const")
                   .Attr("dtype", value.dtype())
                   .Attr("value", value));
  }

  absl::Status AddIntegers(const std::string& name, tf::DataType dtype,
                           const Sizes& sizes, bool scalar) {
    const int64_t size = static_cast<int64_t>(sizes.size());
    tf::Tensor value(dtype, scalar ? tf::TensorShape({}) : tf::TensorShape({size}));
    for (int64_t i = 0; i < size; ++i) {
      if (dtype == tf::DT_INT32) {
        value.flat<int32_t>()(i) = static_cast<int32_t>(sizes[i]);
      } else {
        value.flat<int64_t>()(i) = sizes[i];
      }
    }
    return AddConst(name, value);
  }

  // Adds the number of fed rows, a scalar of each integer type.
  absl::Status AddRows() {
    const TensorName feed = ParseTensor(*fixed_.feeds.begin());
    const tf::NodeDef* const node = program_.Find(feed.node);
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
    for (const tf::DataType dtype : {tf::DT_INT32, tf::DT_INT64}) {
      const std::string rows = RowsOf(dtype);
      const auto part = [&rows](absl::string_view name) {
        return absl::StrCat(rows, "/", name);
      };
      TF_RETURN_IF_ERROR(Add(tf::NodeDefBuilder(part("shape"), "Shape")
                                 .Input(feed.node, feed.index, types.at(feed.index))
                                 .Attr("out_type", dtype)));
      for (const auto& [name, at] : {std::pair{"begin", 0}, {"end", 1}, {"step", 1}}) {
        TF_RETURN_IF_ERROR(AddIntegers(part(name), tf::DT_INT32, {at}, false));
      }
      TF_RETURN_IF_ERROR(Add(tf::NodeDefBuilder(rows, "StridedSlice")
                                 .Input(part("shape"), 0, dtype)
                                 .Input(part("begin"), 0, tf::DT_INT32)
                                 .Input(part("end"), 0, tf::DT_INT32)
                                 .Input(part("step"), 0, tf::DT_INT32)
                                 .Attr("shrink_axis_mask", 1)));
    }
    return absl::OkStatus();
  }

  static std::string RowsOf(tf::DataType dtype) {
    return Name(dtype == tf::DT_INT32 ? "int32" : "int64");
  }

  // Returns the name of a node with these sizes, the first according to the fed rows.
  absl::StatusOr<std::string> Following(tf::DataType dtype, const Sizes& sizes,
                                        bool scalar) {
    const std::string name =
        Name(absl::StrCat(scalar ? "scalar_" : "sizes_", tf::DataTypeString(dtype), "_",
                          absl::StrJoin(sizes, "_")));
    if (!made_.insert(name).second) return name;
    Sizes times(sizes.size(), 0), rest = sizes;
    times[0] = sizes[0] / fixed_.rows;
    rest[0] = 0;
    const auto part = [&name](absl::string_view of) {
      return absl::StrCat(name, "/", of);
    };
    TF_RETURN_IF_ERROR(AddIntegers(part("times"), dtype, times, scalar));
    TF_RETURN_IF_ERROR(AddIntegers(part("rest"), dtype, rest, scalar));
    TF_RETURN_IF_ERROR(Add(tf::NodeDefBuilder(part("product"), "Mul")
                               .Input(part("times"), 0, dtype)
                               .Input(RowsOf(dtype), 0, dtype)));
    TF_RETURN_IF_ERROR(Add(tf::NodeDefBuilder(name, "AddV2")
                               .Input(part("product"), 0, dtype)
                               .Input(part("rest"), 0, dtype)));
    return name;
  }

  // Returns the name of a node with the same value for every fed row.
  absl::StatusOr<std::string> FollowingValue(const tf::NodeDef& node,
                                             const tf::Tensor& value) {
    const std::string name = Name(absl::StrCat("value/", node.name()));
    if (!made_.insert(name).second) return name;
    Sizes sizes;
    for (int d = 0; d < value.dims(); ++d) sizes.push_back(value.dim_size(d));
    TF_ASSIGN_OR_RETURN(const std::string shape, Following(tf::DT_INT32, sizes, false));
    tf::Tensor one(value.dtype(), tf::TensorShape({}));
    std::copy_n(static_cast<const char*>(value.data()), one.TotalBytes(),
                static_cast<char*>(one.data()));
    TF_RETURN_IF_ERROR(AddConst(absl::StrCat(name, "/one"), one));
    TF_RETURN_IF_ERROR(Add(tf::NodeDefBuilder(name, "Fill")
                               .Input(shape, 0, tf::DT_INT32)
                               .Input(absl::StrCat(name, "/one"), 0, value.dtype())));
    return name;
  }

  absl::Status RewriteInput(tf::NodeDef* node, int i) {
    const TensorName input = ParseTensor(node->input(i));
    if (input.control) return absl::OkStatus();
    const tf::NodeDef* const producer = program_.Find(input.node);
    if (producer == nullptr) return absl::OkStatus();
    if (producer->op() == "Const" && InLoop(*producer)) return absl::OkStatus();
    if (TakesShape(node->op(), i)) return RewriteShape(node, i, *producer);
    const std::optional<tf::Tensor> value = ValueOf(producer);
    if (!value.has_value() || value->dims() == 0 || !IsUniform(*value)) {
      return absl::OkStatus();
    }
    Sizes sizes;
    for (int d = 0; d < value->dims(); ++d) sizes.push_back(value->dim_size(d));
    if (TimesRows(sizes) == 0) return absl::OkStatus();
    // A short vector of integers is a position or an axis. A long one has a number for
    // each row (lengths of sequences).
    constexpr int64_t kShort = 8;
    if (value->dims() == 1 && tf::DataTypeIsInteger(value->dtype()) &&
        (sizes[0] <= kShort || sizes[0] != fixed_.rows)) {
      return absl::OkStatus();
    }
    TF_ASSIGN_OR_RETURN(*node->mutable_input(i), FollowingValue(*producer, *value));
    return absl::OkStatus();
  }

  // Rewrites the shape in the node's input number `i`, which `producer` makes.
  absl::Status RewriteShape(tf::NodeDef* node, int i, const tf::NodeDef& producer) {
    const std::optional<tf::Tensor> value = ValueOf(&producer);
    if (value.has_value()) {
      const std::optional<Sizes> sizes = IntegersOf(*value);
      if (!sizes.has_value()) return absl::OkStatus();
      // A tiled vector is usually a loss, repeated for as many rows; a bias is seldom
      // tiled.
      const bool one_for_each = node->op() == "Tile" && sizes->size() == 1;
      if ((one_for_each ? TimesRowsOfAny(*sizes) : TimesRows(*sizes)) == 0) {
        return absl::OkStatus();
      }
      TF_ASSIGN_OR_RETURN(*node->mutable_input(i),
                          Following(value->dtype(), *sizes, value->dims() == 0));
      return absl::OkStatus();
    }
    const std::string& op = producer.op();
    if (op != "Pack" && op != "ConcatV2" && op != "Identity") return absl::OkStatus();
    if (InLoop(producer)) return absl::OkStatus();
    const tf::NodeDef* const first = program_.Find(ParseTensor(producer.input(0)).node);
    if (first == nullptr) return absl::OkStatus();
    // A shape made of several parts depends on the rows by its first part.
    const std::string name = Name(absl::StrCat("shape/", producer.name()));
    if (made_.insert(name).second) {
      tf::NodeDef copy = producer;
      copy.set_name(name);
      TF_RETURN_IF_ERROR(RewriteShape(&copy, 0, *first));
      added_.push_back(std::move(copy));
    }
    *node->mutable_input(i) = name;
    return absl::OkStatus();
  }

  bool InLoop(const tf::NodeDef& node) const {
    return LiesInControlFlow(program_, node.name());
  }

  // Removes attributes that fix the number of rows.
  void RelaxAttributes(tf::NodeDef* node) const {
    auto* const attributes = node->mutable_attr();
    if (absl::StartsWith(node->op(), "TensorArray") || node->op() == "EnsureShape") {
      for (const char* name : {"element_shape", "shape"}) {
        const auto shape = attributes->find(name);
        if (shape == attributes->end() || shape->second.shape().dim_size() == 0)
          continue;
        if (shape->second.shape().dim(0).size() % fixed_.rows != 0) continue;
        ForgetFirst(shape->second.mutable_shape());
      }
    }
    if (fixed_.feeds.count(absl::StrCat(node->name(), ":0")) > 0 &&
        absl::StartsWith(node->op(), "Placeholder")) {
      ForgetFirst((*attributes)["shape"].mutable_shape());
    }
    const auto shapes = attributes->find("output_shapes");
    if (node->op() != kElement || shapes == attributes->end()) return;
    for (int k = 0; k < shapes->second.list().shape_size(); ++k) {
      if (fixed_.feeds.count(absl::StrCat(node->name(), ":", k)) == 0) continue;
      ForgetFirst(shapes->second.mutable_list()->mutable_shape(k));
    }
  }

  const ProgramGraph& program_;
  const RunSpec& spec_;
  const FixedRows& fixed_;
  std::set<const tf::NodeDef*> flat_;  // the nodes that the run needs
  std::set<Sizes> variables_;          // the shapes of variables
  std::set<std::string> made_;
  std::vector<tf::NodeDef> added_;
};

// Returns the rows of a queue's element by the shape of its feed for this component; -1
// if any.
int64_t RowsOfQueue(const ProgramGraph& graph, const tf::NodeDef& dequeue,
                    int component) {
  if (absl::StartsWith(dequeue.op(), "QueueDequeueMany")) {
    const auto count = ValueOf(graph.Find(ParseTensor(dequeue.input(1)).node));
    return count.has_value() ? IntegersOf(*count).value_or(Sizes{-1})[0] : -1;
  }
  const tf::NodeDef* const queue = graph.Find(ParseTensor(dequeue.input(0)).node);
  if (absl::StartsWith(dequeue.op(), "QueueDequeueUpTo") || queue == nullptr) return -1;
  const auto shapes = queue->attr().find("shapes");
  if (shapes == queue->attr().end() ||
      component >= shapes->second.list().shape_size()) {
    return -1;
  }
  const tf::TensorShapeProto& shape = shapes->second.list().shape(component);
  return shape.dim_size() > 0 ? shape.dim(0).size() : -1;
}

int64_t RowsOf(const ProgramGraph& graph, const TensorName& feed,
               const tf::PartialTensorShape& shape) {
  if (!shape.unknown_rank()) return shape.dim_size(0);
  const tf::NodeDef* const producer = graph.Find(feed.node);
  if (producer == nullptr || !absl::StartsWith(producer->op(), "QueueDequeue")) {
    return -1;
  }
  return RowsOfQueue(graph, *producer, feed.index);
}

}  // namespace

FixedRows FindFixedRows(const RunGraph& run, const std::set<std::string>& whole) {
  FixedRows fixed;
  const std::set<std::string> feeds(run.spec().feeds.begin(), run.spec().feeds.end());
  for (const std::string& feed : feeds) {
    if (whole.count(feed) > 0 || !run.Uses(feed)) continue;
    const tf::PartialTensorShape& shape = run.Shape(feed);
    if (!shape.unknown_rank() && shape.dims() == 0) continue;
    const tf::NodeDef* const producer = run.Find(ParseTensor(feed).node);
    // The results of Python functions have shapes without information.
    if (producer != nullptr && FactsOf(producer->op()).calls_python) continue;
    const int64_t rows = RowsOf(run.program(), ParseTensor(feed), shape);
    if (rows < 0 || (fixed.rows > 0 && rows != fixed.rows)) return {};
    fixed.rows = rows;
    fixed.feeds.insert(feed);
  }
  return fixed.rows > 1 ? fixed : FixedRows();
}

absl::Status TakeAnyRows(const ProgramGraph& graph, const RunSpec& spec,
                         const FixedRows& fixed, ProgramGraph* any) {
  return Rewriter(graph, spec, fixed).Rewrite(any);
}

}  // namespace tensorbow
