#include "cc/passes/program/scale_rates.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/passes/program/scaled_tensor.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::Status ScaleRates(const ProgramGraph& program, const RunSpec& spec,
                        const RunAnalysis& analysis, tf::GraphDef* scaled) {
  if (!analysis.without_rate.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "AdaptiveSGD scales each learner's learning rate, and that of '",
        analysis.without_rate,
        "' is not known; wanted updates by TensorFlow's optimiser ops, or sparse ones "
        "by "
        "gradient descent (of tf.compat.v1.train.GradientDescentOptimizer, "
        "MomentumOptimizer, …)"));
  }
  TF_RETURN_IF_ERROR(program.Closure(spec, scaled));
  std::vector<tf::NodeDef> added;
  for (tf::NodeDef& node : *scaled->mutable_node()) {
    const auto rate = analysis.rate_inputs.find(node.name());
    if (rate == analysis.rate_inputs.end()) continue;
    const tf::OpDef* op = nullptr;
    TF_RETURN_IF_ERROR(program.functions().LookUpOpDef(node.op(), &op));
    tf::DataTypeVector types;
    TF_RETURN_IF_ERROR(tf::InputTypesForNode(node, *op, &types));
    const tf::DataType dtype = types.at(rate->second);
    std::string* const input = node.mutable_input(rate->second);
    const TensorName name = ParseTensor(*input);
    const std::string product = absl::StrCat(node.name(), "/TensorBow.rate");
    TF_RETURN_IF_ERROR(
        AppendScaled(name, dtype, "TensorBowRateScale", product, &added));
    *input = product;
  }
  for (tf::NodeDef& node : added) *scaled->add_node() = std::move(node);
  return absl::OkStatus();
}

}  // namespace tensorbow
