#include "cc/passes/loops/tensor_arrays.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kLongestArray = 10000;  // that is followed

// Adds those of `from` to `writes`: each counts once.
template <typename Writes>
void Merge(const Writes& from, Writes* writes) {
  for (const auto& write : from) {
    if (std::none_of(writes->begin(), writes->end(),
                     [&write](const auto& other) { return other.op == write.op; })) {
      writes->push_back(write);
    }
  }
}

}  // namespace

bool UsesArray(absl::string_view op) {
  return op == "StackPushV2" || op == "StackPopV2" || op == "TensorArrayGradV3" ||
         op == "TensorArrayWriteV3" || op == "TensorArrayReadV3" ||
         op == "TensorArrayScatterV3" || op == "TensorArrayGatherV3" ||
         op == "TensorArraySizeV3";
}

const absl::flat_hash_map<absl::string_view, TensorArrays::Rule>&
TensorArrays::Rules() {
  static const auto* const rules = new absl::flat_hash_map<absl::string_view, Rule>{
      {"TensorArrayV3", &TensorArrays::Make},
      {"TensorArrayGradV3", &TensorArrays::Gradient},
      {"TensorArrayWriteV3", &TensorArrays::WriteOne},
      {"TensorArrayScatterV3", &TensorArrays::Scatter},
      {"TensorArrayReadV3", &TensorArrays::Read},
      {"TensorArrayGatherV3", &TensorArrays::Gather},
      {"TensorArraySizeV3", &TensorArrays::Size},
      {"Add", &TensorArrays::Sum},
      {"AddV2", &TensorArrays::Sum},
      {"AddN", &TensorArrays::Sum},
      {"ZerosLike", &TensorArrays::Zeros},
      {"Identity", &TensorArrays::PassOn},
      {"StackPushV2", &TensorArrays::Push},
      {"StackPopV2", &TensorArrays::Pop},
  };
  return *rules;
}

absl::Status TensorArrays::Visit(tf::Node* node) {
  const auto rule = Rules().find(node->type_string());
  return rule == Rules().end() ? absl::OkStatus() : (this->*rule->second)(node);
}

std::optional<int> TensorArrays::ArrayOf(const tf::Node& node) const {
  const tf::OutputTensor handle = values_.InputOf(node, 0);
  const auto array = handles_.find({handle.node, handle.index});
  if (array == handles_.end()) return std::nullopt;
  return array->second;
}

std::shared_ptr<const TensorArrays::Flow> TensorArrays::FlowOf(const tf::Node& node,
                                                               int input,
                                                               int array) const {
  const tf::OutputTensor tensor = values_.InputOf(node, input);
  const auto found = flows_.find({tensor.node, tensor.index});
  int of = -1;
  if (found != flows_.end()) {
    of = found->second->array;
    if (of == array) return found->second;
  } else if (!tensor.node->IsConstant()) {
    return nullptr;
  }
  if (of != -1 && arrays_[array].forward != of) return nullptr;
  auto empty = std::make_shared<Flow>();
  empty->array = array;
  empty->elements.resize(arrays_[array].written.size());
  return empty;
}

void TensorArrays::Set(const tf::Node& node, int output, Flow flow) {
  flows_[{&node, output}] = std::make_shared<const Flow>(std::move(flow));
}

bool TensorArrays::Add(const Write& write, int place, Flow* flow) {
  Array& array = arrays_[flow->array];
  const size_t index = place;
  if (place < 0 || place >= kLongestArray) return false;
  if (index >= flow->elements.size()) {
    if (!array.grows) return false;
    flow->elements.resize(index + 1);
    array.written.resize(std::max(index + 1, array.written.size()));
  }
  std::vector<Write>& writes = flow->elements[place];
  if (!writes.empty() && !array.forward.has_value()) return false;
  writes.push_back(write);
  array.written[place] = write.value;
  return true;
}

absl::StatusOr<tf::OutputTensor> TensorArrays::Element(const Flow& flow, int place) {
  if (place < 0 || place >= static_cast<int>(flow.elements.size())) {
    return tf::OutputTensor();
  }
  const std::vector<Write>& writes = flow.elements[place];
  if (writes.size() == 1) return writes[0].value;
  const std::optional<int> forward = arrays_[flow.array].forward;
  if (!forward.has_value()) return tf::OutputTensor();
  tf::Node* node = nullptr;
  if (!writes.empty()) {
    std::vector<tf::NodeBuilder::NodeOut> all;
    for (const Write& write : writes) {
      all.emplace_back(write.value.node, write.value.index);
    }
    tf::NodeBuilder builder(graph_.NewName("TensorBow/AddN"), "AddN");
    TF_ASSIGN_OR_RETURN(node, values_.Add(builder.Input(all)));
    return tf::OutputTensor(node, 0);
  }
  const tf::OutputTensor value = arrays_[*forward].written[place];
  if (value.node == nullptr) return tf::OutputTensor();
  tf::NodeBuilder builder(graph_.NewName("TensorBow/ZerosLike"), "ZerosLike");
  TF_ASSIGN_OR_RETURN(node, values_.Add(builder.Input(value.node, value.index)));
  return tf::OutputTensor(node, 0);
}

std::optional<std::vector<int>> TensorArrays::PlacesIn(const tf::Node& node,
                                                       int input) {
  const std::optional<tf::Tensor> value =
      values_.Constant(values_.InputOf(node, input));
  if (!value.has_value() || value->dtype() != tf::DT_INT32 || value->dims() != 1) {
    return std::nullopt;
  }
  const auto places = value->vec<int>();
  return std::vector<int>(places.data(), places.data() + places.size());
}

absl::Status TensorArrays::Make(tf::Node* node) {
  const std::optional<int> size = values_.Integer(values_.InputOf(*node, 0));
  if (!size.has_value() || *size < 0 || *size > kLongestArray) return absl::OkStatus();
  handles_[{node, 0}] = arrays_.size();
  Flow flow;
  flow.array = arrays_.size();
  flow.elements.resize(*size);
  Set(*node, 1, std::move(flow));
  Array& array = arrays_.emplace_back();
  array.written.resize(*size);
  return tf::GetNodeAttr(node->attrs(), "dynamic_size", &array.grows);
}

absl::Status TensorArrays::Gradient(tf::Node* node) {
  const std::optional<int> forward = ArrayOf(*node);
  std::string source;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "source", &source));
  if (!forward.has_value()) return absl::OkStatus();
  const auto [place, is_new] =
      arrays_[*forward].gradients.try_emplace(source, arrays_.size());
  const int array = place->second;
  if (is_new) {
    Array gradient;
    gradient.forward = *forward;
    gradient.grows = arrays_[*forward].grows;
    gradient.written.resize(arrays_[*forward].written.size());
    arrays_.push_back(std::move(gradient));
  }
  handles_[{node, 0}] = array;
  if (const auto flow = FlowOf(*node, 1, array)) Set(*node, 1, *flow);
  return absl::OkStatus();
}

absl::Status TensorArrays::WriteOne(tf::Node* node) {
  const std::optional<int> array = ArrayOf(*node);
  const std::optional<int> place = values_.Integer(values_.InputOf(*node, 1));
  if (!array.has_value() || !place.has_value()) return absl::OkStatus();
  const auto before = FlowOf(*node, 3, *array);
  if (before == nullptr) return absl::OkStatus();
  Flow flow = *before;
  if (Add({node, values_.InputOf(*node, 2)}, *place, &flow)) {
    Set(*node, 0, std::move(flow));
  }
  return absl::OkStatus();
}

absl::Status TensorArrays::Scatter(tf::Node* node) {
  const std::optional<int> array = ArrayOf(*node);
  const auto places = PlacesIn(*node, 1);
  const tf::OutputTensor value = values_.InputOf(*node, 2);
  if (!array.has_value() || !places.has_value() || places->empty() ||
      values_.Rows(value) != static_cast<int64_t>(places->size())) {
    return absl::OkStatus();
  }
  const auto before = FlowOf(*node, 3, *array);
  if (before == nullptr) return absl::OkStatus();
  tf::NodeBuilder builder(graph_.NewName("TensorBow/Unpack"), "Unpack");
  builder.Input(value.node, value.index).Attr("num", static_cast<int>(places->size()));
  TF_ASSIGN_OR_RETURN(tf::Node* const parts, values_.Add(builder));
  Flow flow = *before;
  for (size_t i = 0; i < places->size(); ++i) {
    const tf::OutputTensor part(parts, static_cast<int>(i));
    if (!Add({node, part}, (*places)[i], &flow)) return absl::OkStatus();
  }
  Set(*node, 0, std::move(flow));
  return absl::OkStatus();
}

absl::Status TensorArrays::Read(tf::Node* node) {
  const std::optional<int> array = ArrayOf(*node);
  const std::optional<int> place = values_.Integer(values_.InputOf(*node, 1));
  if (!array.has_value() || !place.has_value()) return absl::OkStatus();
  const auto flow = FlowOf(*node, 2, *array);
  if (flow == nullptr) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const tf::OutputTensor element, Element(*flow, *place));
  if (element.node != nullptr) values_.Replace({node, 0}, element);
  return absl::OkStatus();
}

absl::Status TensorArrays::Gather(tf::Node* node) {
  const std::optional<int> array = ArrayOf(*node);
  const auto places = PlacesIn(*node, 1);
  if (!array.has_value() || !places.has_value() || places->empty()) {
    return absl::OkStatus();
  }
  const auto flow = FlowOf(*node, 2, *array);
  if (flow == nullptr) return absl::OkStatus();
  std::vector<tf::NodeBuilder::NodeOut> elements;
  for (int place : *places) {
    TF_ASSIGN_OR_RETURN(const tf::OutputTensor element, Element(*flow, place));
    if (element.node == nullptr) return absl::OkStatus();
    elements.emplace_back(element.node, element.index);
  }
  tf::NodeBuilder builder(graph_.NewName("TensorBow/Pack"), "Pack");
  TF_ASSIGN_OR_RETURN(tf::Node* const packed, values_.Add(builder.Input(elements)));
  values_.Replace({node, 0}, {packed, 0});
  return absl::OkStatus();
}

absl::Status TensorArrays::Size(tf::Node* node) {
  const std::optional<int> array = ArrayOf(*node);
  const auto flow = array.has_value() ? FlowOf(*node, 1, *array) : nullptr;
  if (flow == nullptr) return absl::OkStatus();
  const tf::Tensor size(static_cast<int>(flow->elements.size()));
  return values_.ReplaceByConstant({node, 0}, size);
}

absl::Status TensorArrays::Sum(tf::Node* node) {
  if (node->output_type(0) != tf::DT_FLOAT) return absl::OkStatus();  // no flow
  std::optional<Flow> sum;
  for (int i = 0; i < node->num_inputs(); ++i) {
    const tf::OutputTensor tensor = values_.InputOf(*node, i);
    const auto found = flows_.find({tensor.node, tensor.index});
    if (found == flows_.end()) {
      if (!tensor.node->IsConstant()) return absl::OkStatus();
      continue;
    }
    const Flow& flow = *found->second;
    if (!sum.has_value() || sum->array == -1) {
      sum = flow;
    } else if (flow.array != -1) {
      if (flow.array != sum->array) return absl::OkStatus();
      sum->elements.resize(std::max(sum->elements.size(), flow.elements.size()));
      for (size_t j = 0; j < flow.elements.size(); ++j) {
        Merge(flow.elements[j], &sum->elements[j]);
      }
    }
  }
  if (sum.has_value()) Set(*node, 0, *std::move(sum));
  return absl::OkStatus();
}

absl::Status TensorArrays::Zeros(tf::Node* node) {
  const tf::OutputTensor tensor = values_.InputOf(*node, 0);
  if (flows_.contains({tensor.node, tensor.index})) Set(*node, 0, Flow());
  return absl::OkStatus();
}

absl::Status TensorArrays::PassOn(tf::Node* node) {
  const tf::OutputTensor tensor = values_.InputOf(*node, 0);
  if (node->output_type(0) == tf::DT_RESOURCE) values_.Replace({node, 0}, tensor);
  const auto found = flows_.find({tensor.node, tensor.index});
  if (found == flows_.end()) return absl::OkStatus();
  const std::shared_ptr<const Flow> flow = found->second;  // the map may grow
  flows_[{node, 0}] = flow;
  return absl::OkStatus();
}

absl::Status TensorArrays::Push(tf::Node* node) {
  const tf::OutputTensor stack = values_.InputOf(*node, 0);
  const tf::OutputTensor value = values_.InputOf(*node, 1);
  stacks_[{stack.node, stack.index}].push_back(value);
  values_.Replace({node, 0}, value);
  return absl::OkStatus();
}

absl::Status TensorArrays::Pop(tf::Node* node) {
  const tf::OutputTensor stack = values_.InputOf(*node, 0);
  Tensors& elements = stacks_[{stack.node, stack.index}];
  if (elements.empty()) {
    return absl::InternalError(absl::StrCat("'", node->name(), "' pops nothing"));
  }
  values_.Replace({node, 0}, elements.back());
  elements.pop_back();
  return absl::OkStatus();
}

}  // namespace tensorbow
