#include "cc/passes/program/row_supplies.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace tensorbow {

namespace tf = ::tensorflow;

bool CanBeReduced(tf::DataType type) {
  return type == tf::DT_FLOAT || type == tf::DT_DOUBLE || type == tf::DT_HALF ||
         type == tf::DT_BFLOAT16;
}

const char* HowOf(RowKind kind) {
  switch (kind) {
    case RowKind::kMax:
      return "max";
    case RowKind::kMin:
      return "min";
    case RowKind::kAll:
      return "all";
    case RowKind::kAny:
      return "any";
    default:
      return "sum";
  }
}

absl::Status RowSupplies::DrawOnce(const std::string& node) {
  TF_ASSIGN_OR_RETURN(const tf::NodeDef* const found, edits_->Exchangeable(node));
  const tf::OpDef* op = nullptr;
  TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(found->op(), &op));
  for (int i = 0; i < op->output_arg_size(); ++i) {
    const std::string tensor = absl::StrCat(node, ":", i);
    if (i > 0 && edits_->NumUsers(tensor) == 0) continue;
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(tensor));
    const TensorName name = ParseTensor(tensor);
    const std::string made = edits_->NameBeside(name, "first");
    TF_RETURN_IF_ERROR(edits_->AddExchange(made, name, dtype, "first", 0));
    edits_->Replace(tensor, made);
  }
  return absl::OkStatus();
}

absl::Status RowSupplies::TakeAllRows(const RowNeed& need) {
  TF_ASSIGN_OR_RETURN(const Input input, InputOf(need));
  TensorName rows = ParseTensor(input.tensor);
  const std::string made = absl::StrCat(need.node, "/TensorBow.all_rows.", need.input);
  const std::string rescaled = absl::StrCat(made, "/rescaled");
  if (need.exponent != 0) {
    TF_RETURN_IF_ERROR(edits_->AddRescale(rescaled, rows, input.dtype, -need.exponent));
    rows = {rescaled, 0, false};
  }
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kExchange)
                         .Input(rows.node, rows.index, input.dtype)
                         .Attr("how", "concat")
                         .Attr("axis", need.axis)
                         .Finalize(&edits_->Add()));
  *input.node->mutable_input(need.input) = made;
  return absl::OkStatus();
}

absl::Status RowSupplies::TakeOwnRows(const RowNeed& need) {
  TF_ASSIGN_OR_RETURN(const Input input, InputOf(need));
  const TensorName whole = ParseTensor(input.tensor);
  const std::string made = absl::StrCat(need.node, "/TensorBow.own_rows.", need.input);
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder(made, kOwnRows)
                         .Input(whole.node, whole.index, input.dtype)
                         .Attr("axis", need.axis)
                         .Finalize(&edits_->Add()));
  *input.node->mutable_input(need.input) = made;
  return absl::OkStatus();
}

absl::Status RowSupplies::CountAll(const std::string& name) {
  TF_RETURN_IF_ERROR(edits_->Exchangeable(name).status());
  tf::NodeDef* const node = edits_->Node(name);
  TF_ASSIGN_OR_RETURN(const tf::DataType dtype,
                      edits_->TypeOf(absl::StrCat(name, ":0")));
  if (!CanBeReduced(dtype))
    return edits_->Misplaced(name, "has a type that learners cannot exchange");
  tf::NodeDef sum = *node;
  sum.set_name(absl::StrCat(name, "/TensorBow.sum"));
  sum.set_op("Sum");
  const TensorName rows = edits_->InputNow(*node, 0);
  tf::NodeDef mean;
  TF_RETURN_IF_ERROR(tf::NodeDefBuilder(name, kMeanOfAllRows)
                         .Input(sum.name(), 0, dtype)
                         .Input(rows.node, rows.index, dtype)
                         .Finalize(&mean));
  *node = std::move(mean);
  edits_->Add() = std::move(sum);
  return absl::OkStatus();
}

absl::Status RowSupplies::GatherSlices(const RowNeed& need) {
  tf::NodeDef* const node = edits_->Node(need.node);
  if (!absl::StrContains(node->op(), "Scatter") || need.of != RowKind::kRows) {
    return edits_->Misplaced(need.node, "needs the slices of all rows");
  }
  for (int input : {1, 2}) {
    const std::string before = Canonical(program_.Find(need.node)->input(input));
    const auto type = types_.types.find(before);
    TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(before));
    if (type == types_.types.end() || type->second.exponent != 0 ||
        type->second.axis != 0) {
      return edits_->Misplaced(need.node, "needs the slices of all rows");
    }
    const std::string made = absl::StrCat(need.node, "/TensorBow.all.", input);
    TF_RETURN_IF_ERROR(
        edits_->AddExchange(made, edits_->InputNow(*node, input), dtype, "concat", 0));
    *node->mutable_input(input) = made;
  }
  return absl::OkStatus();
}

absl::StatusOr<RowSupplies::Input> RowSupplies::InputOf(const RowNeed& need) {
  TF_RETURN_IF_ERROR(edits_->Exchangeable(need.node).status());
  tf::NodeDef* const node = edits_->Node(need.node);
  const std::string before = Canonical(program_.Find(need.node)->input(need.input));
  TF_ASSIGN_OR_RETURN(const tf::DataType dtype, edits_->TypeOf(before));
  return Input{node, node->input(need.input), dtype};
}

}  // namespace tensorbow
