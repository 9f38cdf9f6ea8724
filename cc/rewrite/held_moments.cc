#include "cc/rewrite/held_moments.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/rewrite/row_moments.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Outputs of the op that its gradient takes.
constexpr int kMeanForGradient = 3, kVarianceForGradient = 4;

bool IsNormalisation(const tf::NodeDef& node) {
  return absl::StartsWith(node.op(), "FusedBatchNorm");
}

bool IsGradientOfNormalisation(const tf::NodeDef& node) {
  return IsNormalisation(node) && absl::StrContains(node.op(), "Grad");
}

template <typename T>
T AttributeOf(const tf::NodeDef& node, const char* name, T otherwise) {
  tf::GetNodeAttr(node, name, &otherwise).IgnoreError();
  return otherwise;
}

bool NormalisesByItsRows(const tf::NodeDef& node) {
  return AttributeOf(node, "is_training", true);
}

bool CanBeSpelledOut(const tf::NodeDef& node) {
  return absl::EndsWith(node.op(), "V3") &&
         AttributeOf<std::string>(node, "data_format", "NHWC") == "NHWC" &&
         AttributeOf(node, "T", tf::DT_FLOAT) == tf::DT_FLOAT &&
         AttributeOf(node, "exponential_avg_factor", 1.0F) == 1;
}

// Writes a batch normalisation op, or its gradient, as simple ops, all of float32.
class Speller {
 public:
  // `node`: the op; what it becomes is appended to `added`.
  Speller(const tf::NodeDef& node, std::vector<tf::NodeDef>* added)
      : node_(node), added_(added) {
    tf::Tensor axes(tf::DT_INT32, {3});  // all but the channels
    for (int i = 0; i < 3; ++i) axes.flat<int32_t>()(i) = i;
    axes_ = Constant("axes", axes);
    epsilon_ = Number("epsilon", AttributeOf(node, "epsilon", 0.0001F));
    count_ = Apply("count", "RealDiv",
                   {Size("elements", InputAt(0)), Size("channels", InputAt(2))});
  }

  void Normalise() {
    const std::string x = InputAt(0), scale = InputAt(1), offset = InputAt(2);
    const std::string mean = Together("mean", Reduce("own_mean", "Mean", x), "mean");
    const std::string squares = Apply("squares", "SquaredDifference", {x, mean});
    const std::string variance =
        Together("variance", Reduce("own_variance", "Mean", squares), "mean");
    const std::string normalised = Apply(
        "normalised", "Mul", {Apply("deviation", "Sub", {x, mean}), Inverse(variance)});
    const std::string scaled = Apply("scaled", "Mul", {normalised, scale});
    // What a moving average takes is the unbiased estimate.
    const std::string all = Together("rows", count_, "sum");
    const std::string one = Number("one", 1);
    const std::string degrees =
        Apply("degrees", "Maximum", {Apply("all_but_one", "Sub", {all, one}), one});
    const std::string unbiased = Apply(
        "unbiased", "Mul", {variance, Apply("bessel", "RealDiv", {all, degrees})});
    Finish(
        {Apply("y", "AddV2", {scaled, offset}), mean, unbiased, mean, variance, mean});
  }

  void GoBack() {
    const std::string dy = InputAt(0), x = InputAt(1), scale = InputAt(2);
    const std::string inverse = Inverse(InputAt(kVarianceForGradient));
    const std::string normalised =
        Apply("normalised", "Mul",
              {Apply("deviation", "Sub", {x, InputAt(kMeanForGradient)}), inverse});
    const std::string to_offset = Reduce("to_offset", "Sum", dy);
    const std::string to_scale =
        Reduce("to_scale", "Sum", Apply("by_row", "Mul", {dy, normalised}));
    const auto mean_of = [this](const std::string& name, const std::string& sum) {
      return Apply(absl::StrCat(name, "_mean"), "RealDiv",
                   {Together(absl::StrCat(name, "_sum"), sum, "part"), count_});
    };
    const std::string slope =
        Apply("slope", "Mul", {normalised, mean_of("scale", to_scale)});
    const std::string centred =
        Apply("centred", "Sub",
              {Apply("shifted", "Sub", {dy, mean_of("offset", to_offset)}), slope});
    const std::string dx =
        Apply("dx", "Mul", {centred, Apply("steepness", "Mul", {scale, inverse})});
    Finish({dx, to_scale, to_offset, to_offset, to_offset});
  }

 private:
  std::string InputAt(int i) const { return node_.input(i); }

  tf::NodeDef* Add(const std::string& name, const char* op,
                   const std::vector<std::string>& inputs) {
    tf::NodeDef& made = added_->emplace_back();
    made.set_name(absl::StrCat(node_.name(), "/TensorBow.held/", name));
    made.set_op(op);
    for (const std::string& input : inputs) made.add_input(input);
    return &made;
  }

  std::string Apply(const std::string& name, const char* op,
                    const std::vector<std::string>& inputs) {
    tf::NodeDef* const made = Add(name, op, inputs);
    (*made->mutable_attr())["T"].set_type(tf::DT_FLOAT);
    return made->name();
  }

  std::string Constant(const std::string& name, const tf::Tensor& value) {
    tf::NodeDef* const made = Add(name, "Const", {});
    (*made->mutable_attr())["dtype"].set_type(value.dtype());
    value.AsProtoField((*made->mutable_attr())["value"].mutable_tensor());
    return made->name();
  }

  std::string Number(const std::string& name, float value) {
    return Constant(name, tf::Tensor(value));
  }

  std::string Reduce(const std::string& name, const char* op, const std::string& of) {
    const std::string made = Apply(name, op, {of, axes_});
    (*added_->back().mutable_attr())["Tidx"].set_type(tf::DT_INT32);
    return made;
  }

  std::string Size(const std::string& name, const std::string& of) {
    const std::string size = Apply(absl::StrCat(name, "_size"), "Size", {of});
    tf::NodeDef* const made = Add(name, "Cast", {size});
    (*made->mutable_attr())["SrcT"].set_type(tf::DT_INT32);
    (*made->mutable_attr())["DstT"].set_type(tf::DT_FLOAT);
    return made->name();
  }

  std::string Together(const std::string& name, const std::string& of,
                       const char* how) {
    const std::string made = Apply(name, kMeanTogether, {of});
    (*added_->back().mutable_attr())["how"].set_s(how);
    return made;
  }

  std::string Inverse(const std::string& variance) {
    const std::string held = Apply("held", "AddV2", {variance, epsilon_});
    return Apply("inverse", "Rsqrt", {held});
  }

  // An IdentityN with the op's name gives the op's outputs.
  void Finish(const std::vector<std::string>& outputs) {
    tf::NodeDef& made = added_->emplace_back();
    made.set_name(node_.name());
    made.set_op("IdentityN");
    auto* const types = (*made.mutable_attr())["T"].mutable_list();
    for (const std::string& output : outputs) {
      made.add_input(output);
      types->add_type(tf::DT_FLOAT);
    }
    for (const std::string& input : node_.input()) {
      if (ParseTensor(input).control) made.add_input(input);
    }
  }

  const tf::NodeDef& node_;
  std::vector<tf::NodeDef>* const added_;
  std::string axes_, epsilon_, count_;
};

// `spelled` ← what `spec` needs of `graph`, with simple ops in the place of
// TensorFlow's batch normalisation ops that use the moments of their rows. False if one
// cannot be replaced.
absl::StatusOr<bool> SpellOut(const ProgramGraph& graph, const RunSpec& spec,
                              ProgramGraph* spelled) {
  tf::GraphDef whole;
  TF_RETURN_IF_ERROR(graph.Closure(spec, &whole));
  tf::GraphDef rest = whole;
  rest.clear_node();
  std::set<absl::string_view> forward;
  for (const tf::NodeDef& node : whole.node()) {
    if (IsNormalisation(node) && !IsGradientOfNormalisation(node) &&
        NormalisesByItsRows(node)) {
      forward.insert(node.name());
    }
  }
  for (const tf::NodeDef& node : whole.node()) {
    if (!IsNormalisation(node) || !NormalisesByItsRows(node)) {
      *rest.add_node() = node;
      continue;
    }
    if (!CanBeSpelledOut(node) || LiesInControlFlow(graph, node.name())) return false;
    std::vector<tf::NodeDef> added;
    Speller speller(node, &added);
    if (IsGradientOfNormalisation(node)) {
      const TensorName mean = ParseTensor(node.input(kMeanForGradient));
      const TensorName variance = ParseTensor(node.input(kVarianceForGradient));
      if (mean.node != variance.node || mean.index != kMeanForGradient ||
          variance.index != kVarianceForGradient || forward.count(mean.node) == 0) {
        return false;
      }
      speller.GoBack();
    } else {
      speller.Normalise();
    }
    for (tf::NodeDef& made : added) *rest.add_node() = std::move(made);
  }
  TF_RETURN_IF_ERROR(spelled->Extend(rest));
  return true;
}

}  // namespace

absl::StatusOr<bool> HoldMoments(const ProgramGraph& graph, const RunSpec& spec,
                                 const RunAnalysis& analysis, ProgramGraph* held) {
  // With `sums` the gradients by moments are marked "part", which tells them from
  // moments.
  ProgramGraph averaged;
  TF_ASSIGN_OR_RETURN(const bool all, AverageMoments(graph, spec, analysis,
                                                     /*sums=*/true, &averaged));
  if (!all) return false;
  return SpellOut(averaged, spec, held);
}

}  // namespace tensorbow
