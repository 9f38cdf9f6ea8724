#include "cc/checkpoint/checks.h"

#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

std::string FirstFew(const std::vector<std::string>& names) {
  constexpr size_t kFew = 5;
  const auto end = names.begin() + std::min(kFew, names.size());
  return absl::StrCat("'", absl::StrJoin(names.begin(), end, "', '"), "'",
                      names.size() > kFew ? ", …" : "");
}

absl::Status CheckSettings(const SavedState::Settings& saved,
                           const SavedState::Settings& wanted) {
  if (saved == wanted) return absl::OkStatus();
  auto text = [](const SavedState::Settings& settings) {
    return absl::StrJoin(settings, ", ", absl::PairFormatter("="));
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "The saved state is of a session with ", text(saved), "; this session has ",
      text(wanted), ". Create the session with the options it was saved with."));
}

absl::Status CheckNames(const std::vector<std::string>& saved,
                        const VariableNodes& variables) {
  std::vector<std::string> unknown, missing;
  for (const std::string& name : saved) {
    if (variables.count(name) == 0) unknown.push_back(name);
  }
  const std::set<std::string> known(saved.begin(), saved.end());
  for (const auto& [name, node] : variables) {
    if (known.count(name) == 0) missing.push_back(name);
  }
  if (unknown.empty() && missing.empty()) return absl::OkStatus();
  std::string text = "The saved state is of another graph: ";
  if (!unknown.empty()) {
    absl::StrAppend(&text, "it has ", unknown.size(),
                    " variables that this graph has not (", FirstFew(unknown), ")");
  }
  if (!missing.empty()) {
    absl::StrAppend(&text, unknown.empty() ? "" : " and ", "it lacks ", missing.size(),
                    " that this graph has (", FirstFew(missing), ")");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(text, ". Build the graph that was saved, the optimiser included."));
}

absl::Status CheckValue(const tf::NodeDef& node, const tf::Tensor& value) {
  tf::DataType dtype;
  tf::PartialTensorShape shape;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "dtype", &dtype));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "shape", &shape));
  // An empty shape is how the oldest kind of variable says that it does not know it.
  const bool unknown = node.op() == "Variable" && shape.dims() == 0;
  if (dtype == value.dtype() && (unknown || shape.IsCompatibleWith(value.shape()))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "The saved state has variable '", node.name(), "' with type ",
      tf::DataTypeString(value.dtype()), " and shape ", value.shape().DebugString(),
      "; in this graph it has type ", tf::DataTypeString(dtype), " and shape ",
      shape.DebugString(), ". Build the graph that was saved."));
}

absl::Status CheckLearners(const std::string& name,
                           const std::vector<int64_t>& learners, int num_learners) {
  const bool ascending = std::adjacent_find(learners.begin(), learners.end(),
                                            std::greater_equal<>()) == learners.end();
  const bool known =
      learners.empty() || (learners.front() >= 0 && learners.back() < num_learners);
  if (known && ascending) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("The saved state has a value of '", name,
                   "' that is of learners that this session does not have"));
}

}  // namespace tensorbow
