#include "cc/passes/program/whole_numbers.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::StatusOr<std::string> WholeNumbers::Of(const std::string& tensor) {
  const auto known = wholes_.find(tensor);
  if (known != wholes_.end()) return known->second;
  const TensorName name = ParseTensor(tensor);
  const auto type = types_.types.find(tensor);
  TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(tensor));
  if (type == types_.types.end()) return tensor;  // a feed
  if (type->second.is(RowKind::kSame) && type->second.exponent != 0) {
    const std::string scaled = edits_->NameBeside(name, "whole");
    TF_RETURN_IF_ERROR(edits_->AddRescale(scaled, name, dtype, -type->second.exponent));
    wholes_[tensor] = scaled;
    return scaled;
  }
  if (type->second.is(RowKind::kSame) || type->second.is(RowKind::kZero)) return tensor;
  const bool places = type->second.is(RowKind::kRows) &&
                      type->second.own.kind != OwnPlaces::Kind::kNone;
  if (places || type->second.is(RowKind::kAxes)) {
    const std::string copy = edits_->NameBeside(name, "whole");
    TF_RETURN_IF_ERROR(AddCopy(name, copy));
    return wholes_[tensor] = absl::StrCat(copy, ":", name.index);
  }
  if (!type->second.is(RowKind::kSizes)) {
    return edits_->Misplaced(name.node,
                             "is computed from more than the number of rows");
  }
  bool is_fed = true, adds_up = true, is_multiple = type->second.numbers.has_value();
  std::vector<int> powers;
  const size_t count = is_multiple ? type->second.numbers->size() : 0;
  for (size_t i = 0; i < count; ++i) {
    const Size number = (*type->second.numbers)[i];
    const std::optional<int> degree = types_.sizes->Degree(number);
    is_multiple &= degree.has_value();
    powers.push_back(degree.value_or(0));
    adds_up &= powers.back() == 1;
    is_fed &= types_.sizes->HasFedRowsOnly(number);
  }
  std::string made = edits_->NameBeside(name, "whole");
  if (is_multiple && is_fed) {
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kRescale)
                           .Input(name.node, name.index, dtype)
                           .Attr("powers", powers)
                           .Finalize(&edits_->Add()));
  } else if (is_multiple && adds_up && !exchanges_) {
    return tensor;  // the learner's own rows are the estimate
  } else if (is_multiple && adds_up) {
    TF_RETURN_IF_ERROR(edits_->Exchangeable(name.node).status());
    TF_RETURN_IF_ERROR(edits_->AddExchange(made, name, dtype, "sum", 0));
  } else {
    TF_RETURN_IF_ERROR(AddCopy(name, made));
    made = absl::StrCat(made, ":", name.index);
  }
  wholes_[tensor] = made;
  return made;
}

absl::Status WholeNumbers::AddCopy(const TensorName& tensor, const std::string& made) {
  const tf::NodeDef* const node = program_.Find(tensor.node);
  const tf::OpDef* op = nullptr;
  if (node == nullptr)
    return edits_->Misplaced(tensor.node, "counts rows in a function");
  TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
  if (op->is_stateful() || LiesInControlFlow(program_, tensor.node)) {
    return edits_->Misplaced(tensor.node,
                             "takes a number that is not a multiple of the rows");
  }
  tf::NodeDef copy = *node;
  copy.set_name(made);
  for (std::string& input : *copy.mutable_input()) {
    if (ParseTensor(input).control) continue;
    TF_ASSIGN_OR_RETURN(input, Of(Canonical(input)));
  }
  edits_->Add() = std::move(copy);
  return absl::OkStatus();
}

}  // namespace tensorbow
