#include "cc/passes/loops/tensor_lists.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kMostElements = 10000;  // of a list that is followed

}  // namespace

const absl::flat_hash_map<absl::string_view, TensorLists::Rule>& TensorLists::Rules() {
  static const auto* const rules = new absl::flat_hash_map<absl::string_view, Rule>{
      {"EmptyTensorList", &TensorLists::Empty},
      {"TensorListReserve", &TensorLists::Reserve},
      {"TensorListFromTensor", &TensorLists::FromTensor},
      {"TensorListPushBack", &TensorLists::PushBack},
      {"TensorListPopBack", &TensorLists::PopBack},
      {"TensorListSetItem", &TensorLists::SetItem},
      {"TensorListGetItem", &TensorLists::GetItem},
      {"TensorListStack", &TensorLists::Stack},
      {"TensorListLength", &TensorLists::Length},
      {"AddN", &TensorLists::Sum},
      {"ZerosLike", &TensorLists::Zeros},
      {"Identity", &TensorLists::PassOn},
  };
  return *rules;
}

absl::Status TensorLists::Visit(tf::Node* node) {
  const auto rule = Rules().find(node->type_string());
  return rule == Rules().end() ? absl::OkStatus() : (this->*rule->second)(node);
}

TensorLists::List TensorLists::ListOf(const tf::Node& node, int input) const {
  const tf::OutputTensor tensor = values_.InputOf(node, input);
  const auto list = lists_.find({tensor.node, tensor.index});
  return list == lists_.end() ? nullptr : list->second;
}

void TensorLists::Set(const tf::Node& node, Elements elements) {
  lists_[{&node, 0}] = std::make_shared<const Elements>(std::move(elements));
}

absl::StatusOr<tf::OutputTensor> TensorLists::Apply(const char* op,
                                                    const Elements& inputs) {
  tf::NodeBuilder builder(graph_.NewName(absl::StrCat("TensorBow/", op)), op);
  if (inputs.size() == 1) {
    builder.Input(inputs[0].node, inputs[0].index);
  } else {
    std::vector<tf::NodeBuilder::NodeOut> all;
    for (const auto& input : inputs) all.emplace_back(input.node, input.index);
    builder.Input(all);
  }
  TF_ASSIGN_OR_RETURN(tf::Node* const node, values_.Add(builder));
  return tf::OutputTensor(node, 0);
}

absl::Status TensorLists::Empty(tf::Node* node) {
  Set(*node, {});
  return absl::OkStatus();
}

absl::Status TensorLists::Reserve(tf::Node* node) {
  const std::optional<int> length = values_.Integer(values_.InputOf(*node, 1));
  if (length.has_value() && *length >= 0 && *length <= kMostElements) {
    Set(*node, Elements(*length));
  }
  return absl::OkStatus();
}

absl::Status TensorLists::FromTensor(tf::Node* node) {
  const tf::OutputTensor tensor = values_.InputOf(*node, 0);
  const std::optional<int64_t> rows = values_.Rows(tensor);
  if (!rows.has_value() || *rows < 1 || *rows > kMostElements) return absl::OkStatus();
  tf::NodeBuilder builder(graph_.NewName("TensorBow/Unpack"), "Unpack");
  builder.Input(tensor.node, tensor.index).Attr("num", static_cast<int>(*rows));
  TF_ASSIGN_OR_RETURN(tf::Node* const parts, values_.Add(builder));
  Elements elements;
  for (int i = 0; i < *rows; ++i) elements.emplace_back(parts, i);
  Set(*node, std::move(elements));
  return absl::OkStatus();
}

absl::Status TensorLists::PushBack(tf::Node* node) {
  const List list = ListOf(*node, 0);
  if (list == nullptr || list->size() >= kMostElements) return absl::OkStatus();
  Elements elements = *list;
  elements.push_back(values_.InputOf(*node, 1));
  Set(*node, std::move(elements));
  return absl::OkStatus();
}

absl::Status TensorLists::PopBack(tf::Node* node) {
  const List list = ListOf(*node, 0);
  if (list == nullptr || list->empty() || list->back().node == nullptr) {
    return absl::OkStatus();
  }
  values_.Replace({node, 1}, list->back());
  Set(*node, Elements(list->begin(), list->end() - 1));
  return absl::OkStatus();
}

absl::Status TensorLists::SetItem(tf::Node* node) {
  const List list = ListOf(*node, 0);
  const std::optional<int> index = values_.Integer(values_.InputOf(*node, 1));
  if (list == nullptr || !index.has_value() || *index < 0 ||
      *index >= static_cast<int>(list->size())) {
    return absl::OkStatus();
  }
  Elements elements = *list;
  elements[*index] = values_.InputOf(*node, 2);
  Set(*node, std::move(elements));
  return absl::OkStatus();
}

absl::Status TensorLists::GetItem(tf::Node* node) {
  const List list = ListOf(*node, 0);
  const std::optional<int> index = values_.Integer(values_.InputOf(*node, 1));
  if (list == nullptr || !index.has_value() || *index < 0 ||
      *index >= static_cast<int>(list->size()) || (*list)[*index].node == nullptr) {
    return absl::OkStatus();
  }
  values_.Replace({node, 0}, (*list)[*index]);
  return absl::OkStatus();
}

absl::Status TensorLists::Stack(tf::Node* node) {
  const List list = ListOf(*node, 0);
  if (list == nullptr) return absl::OkStatus();
  const auto written =
      std::find_if(list->begin(), list->end(),
                   [](const auto& element) { return element.node != nullptr; });
  if (written == list->end()) return absl::OkStatus();
  Elements elements = *list;
  tf::OutputTensor zeros;  // elements that have not been written
  for (tf::OutputTensor& element : elements) {
    if (element.node != nullptr) continue;
    if (zeros.node == nullptr) {
      TF_ASSIGN_OR_RETURN(zeros, Apply("ZerosLike", {*written}));
    }
    element = zeros;
  }
  std::vector<tf::NodeBuilder::NodeOut> all;
  for (const auto& element : elements) all.emplace_back(element.node, element.index);
  tf::NodeBuilder builder(graph_.NewName("TensorBow/Pack"), "Pack");
  builder.Input(all);
  TF_ASSIGN_OR_RETURN(tf::Node* const packed, values_.Add(builder));
  values_.Replace({node, 0}, {packed, 0});
  return absl::OkStatus();
}

absl::Status TensorLists::Length(tf::Node* node) {
  const List list = ListOf(*node, 0);
  if (list == nullptr) return absl::OkStatus();
  const tf::Tensor length(static_cast<int>(list->size()));
  return values_.ReplaceByConstant({node, 0}, length);
}

absl::Status TensorLists::Sum(tf::Node* node) {
  if (node->output_type(0) != tf::DT_VARIANT) return absl::OkStatus();
  std::vector<List> lists;
  for (int i = 0; i < node->num_inputs(); ++i) {
    lists.push_back(ListOf(*node, i));
    if (lists.back() == nullptr || lists.back()->size() != lists[0]->size()) {
      return absl::OkStatus();
    }
  }
  Elements sums;
  for (size_t i = 0; i < lists[0]->size(); ++i) {
    Elements addends;
    for (const List& list : lists) {
      if ((*list)[i].node != nullptr) addends.push_back((*list)[i]);
    }
    if (addends.size() < 2) {
      sums.push_back(addends.empty() ? tf::OutputTensor() : addends[0]);
      continue;
    }
    TF_ASSIGN_OR_RETURN(sums.emplace_back(), Apply("AddN", addends));
  }
  Set(*node, std::move(sums));
  return absl::OkStatus();
}

absl::Status TensorLists::Zeros(tf::Node* node) {
  const List list = ListOf(*node, 0);
  if (list == nullptr) return absl::OkStatus();
  Elements zeros;
  for (const tf::OutputTensor& element : *list) {
    zeros.emplace_back();
    if (element.node == nullptr) continue;
    TF_ASSIGN_OR_RETURN(zeros.back(), Apply("ZerosLike", {element}));
  }
  Set(*node, std::move(zeros));
  return absl::OkStatus();
}

absl::Status TensorLists::PassOn(tf::Node* node) {
  const List list = ListOf(*node, 0);
  if (list != nullptr) lists_[{node, 0}] = list;
  return absl::OkStatus();
}

}  // namespace tensorbow
