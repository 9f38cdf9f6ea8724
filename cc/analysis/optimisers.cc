#include "cc/analysis/optimisers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

const Input* FindInput(const std::vector<Input>& inputs, absl::string_view name) {
  for (const Input& input : inputs) {
    if (input.declaration->name() == name) return &input;
  }
  return nullptr;
}

// Returns the value of a constant scalar, also behind identities.
std::optional<double> ConstantScalar(const RunGraph& run, absl::string_view name) {
  const tf::NodeDef* node = run.Find(name);
  while (node != nullptr && node->op() == "Identity" && node->input_size() > 0) {
    node = run.Find(ParseTensor(node->input(0)).node);
  }
  if (node == nullptr || node->op() != "Const") return std::nullopt;
  tf::Tensor value;
  if (!value.FromProto(node->attr().at("value").tensor()) || value.NumElements() != 1) {
    return std::nullopt;
  }
  if (value.dtype() == tf::DT_FLOAT) return value.flat<float>()(0);
  if (value.dtype() == tf::DT_DOUBLE) return value.flat<double>()(0);
  return std::nullopt;
}

// The effect of evaluating a tensor by itself.
enum class Evaluation {
  kConstant,   // always the same value, computed from constants alone
  kHarmless,   // from feeds and variables, without side effects
  kForbidden,  // changes state, waits, or lies inside a loop or a branch
};

// Returns the effect of evaluating the node itself; kConstant if that depends on its
// inputs.
Evaluation EvaluationOf(const RunGraph& run, const tf::NodeDef* node) {
  const tf::OpDef* op = nullptr;
  if (!run.functions().LookUpOpDef(node->op(), &op).ok() ||
      FactsOf(node->op()).may_block) {
    return Evaluation::kForbidden;
  }
  if (FactsOf(node->op()).creates_variable || node->op() == "ReadVariableOp" ||
      absl::StartsWith(node->op(), "Placeholder")) {
    return Evaluation::kHarmless;
  }
  const bool by_reference = op->input_arg_size() > 0 && op->input_arg(0).is_ref();
  return op->is_stateful() || by_reference ? Evaluation::kForbidden
                                           : Evaluation::kConstant;
}

Evaluation EvaluationOf(const RunGraph& run, absl::string_view tensor) {
  if (run.InControlFlow(tensor)) return Evaluation::kForbidden;
  const tf::NodeDef* const producer = run.Find(ParseTensor(tensor).node);
  if (producer == nullptr) return Evaluation::kForbidden;
  Evaluation evaluation = Evaluation::kConstant;
  const auto all = [&](const tf::NodeDef&, const std::string& input) {
    if (run.Find(ParseTensor(input).node) == nullptr) {
      evaluation = Evaluation::kForbidden;
    }
    return evaluation != Evaluation::kForbidden;
  };
  for (const tf::NodeDef* node : run.Reach({producer}, all)) {
    const Evaluation own = EvaluationOf(run, node);
    if (own == Evaluation::kForbidden) return own;
    if (own == Evaluation::kHarmless && evaluation == Evaluation::kConstant) {
      evaluation = own;
    }
  }
  return evaluation;
}

bool SameShape(const tf::NodeDef& a, const tf::NodeDef& b) {
  const auto shape_a = a.attr().find("shape"), shape_b = b.attr().find("shape");
  return shape_a != a.attr().end() && shape_b != b.attr().end() &&
         tf::PartialTensorShape(shape_a->second.shape())
             .IsIdenticalTo(tf::PartialTensorShape(shape_b->second.shape()));
}

// Returns a test for slots of the variable: roots of the same shape, not trainable,
// that the run writes.
std::function<bool(int)> IsSlotOf(const RunEffects& effects,
                                  const tf::NodeDef& variable) {
  return [&effects, &variable](int slot) {
    return effects.summary.roots[slot].written && !effects.is_trainable(slot) &&
           IsFloating(*effects.variables[slot]) &&
           SameShape(*effects.variables[slot], variable);
  };
}

// Returns whether an update that is no optimiser op has momentum: it reads a slot.
bool ReadsSlot(const RunEffects& effects, const tf::NodeDef& update,
               const tf::NodeDef& variable) {
  return effects.dataflow->OperandsDependOn(update, IsSlotOf(effects, variable));
}

// Adds the learning rate of an optimiser op, "node:index", if it can change between
// runs and be evaluated on its own.
void AddLearningRate(const RunGraph& run, const tf::NodeDef& update,
                     const std::vector<Input>& inputs, std::set<std::string>* rates) {
  const Input* rate = FindInput(inputs, "lr");
  if (rate == nullptr) rate = FindInput(inputs, "alpha");
  if (rate == nullptr) return;
  const std::string& tensor = update.input(rate - inputs.data());
  if (EvaluationOf(run, tensor) != Evaluation::kHarmless) return;
  const TensorName name = ParseTensor(tensor);
  rates->insert(absl::StrCat(name.node, ":", name.index));
}

// Returns whether the tensor is known to be a scalar, also behind identities.
bool IsScalar(const RunGraph& run, absl::string_view tensor) {
  const tf::NodeDef* node = run.Find(ParseTensor(tensor).node);
  while (node != nullptr && node->input_size() > 0 &&
         (node->op() == "Identity" || node->op() == "ReadVariableOp")) {
    node = run.Find(ParseTensor(node->input(0)).node);
  }
  if (node == nullptr) return false;
  if (node->op() == "Const") {
    return node->attr().at("value").tensor().tensor_shape().dim_size() == 0;
  }
  const auto shape = node->attr().find("shape");
  return (FactsOf(node->op()).creates_variable || node->op() == "Placeholder") &&
         shape != node->attr().end() && !shape->second.shape().unknown_rank() &&
         shape->second.shape().dim_size() == 0;
}

// Records the input that is the learning rate of an update: of an optimiser op, or of
// the product that gradient descent of some rows scatters.
void NoteRate(const RunGraph& run, const tf::NodeDef& update,
              const std::vector<Input>& inputs, RunAnalysis* analysis) {
  for (absl::string_view name : {"lr", "alpha"}) {
    const Input* const rate = FindInput(inputs, name);
    if (rate == nullptr) continue;
    analysis->rate_inputs[update.name()] = static_cast<int>(rate - inputs.data());
    return;
  }
  const tf::NodeDef* product = nullptr;
  if (FactsOf(update.op()).row_update == RowUpdate::kScatterSum) {
    product = run.Find(ParseTensor(update.input(2)).node);
    while (product != nullptr &&
           (product->op() == "Identity" || product->op() == "Neg")) {
      product = run.Find(ParseTensor(product->input(0)).node);
    }
  }
  for (int i = 0; product != nullptr && product->op() == "Mul" && i < 2; ++i) {
    if (!IsScalar(run, product->input(i))) continue;
    analysis->rate_inputs[product->name()] = i;
    return;
  }
  analysis->without_rate = update.name();
}

}  // namespace

bool IsFloating(const tf::NodeDef& variable) {
  const auto dtype = variable.attr().find("dtype");
  return dtype != variable.attr().end() &&
         (tf::DataTypeIsFloating(dtype->second.type()) ||
          tf::DataTypeIsComplex(dtype->second.type()));
}

void DescribeOptimisers(const RunGraph& run, const RunEffects& effects,
                        RunAnalysis* analysis) {
  for (size_t root = 0; root < effects.variables.size(); ++root) {
    const Effects& updates = effects.summary.roots[root];
    if (!analysis->variables[effects.variables[root]->name()].trained) continue;
    analysis->plain_gradient_descent &=
        updates.optimiser <= OptimiserKind::kGradientDescent;
  }
  const auto is_trained = [&](int root) {
    return analysis->variables[effects.variables[root]->name()].trained;
  };
  std::set<std::string> rates;
  std::set<int> with_rate;  // with a rate, or recorded as without one
  for (const tf::NodeDef* node : effects.dataflow->nodes()) {
    const std::set<int> updated = effects.dataflow->FirstRoots(*node);
    if (updated.empty()) continue;
    const std::vector<Input> inputs = effects.dataflow->Inputs(*node);
    if (std::any_of(updated.begin(), updated.end(), is_trained) &&
        WritesInput(node->op(), *inputs[0].declaration)) {
      NoteRate(run, *node, inputs, analysis);
      with_rate.insert(updated.begin(), updated.end());
    }
    if (FactsOf(node->op()).optimiser == OptimiserKind::kNone) {
      for (int root : updated) {
        const tf::NodeDef& variable = *effects.variables[root];
        if (!is_trained(root)) continue;
        analysis->plain_gradient_descent =
            analysis->plain_gradient_descent && !ReadsSlot(effects, *node, variable);
      }
      continue;
    }
    AddLearningRate(run, *node, inputs, &rates);
    if (const Input* momentum = FindInput(inputs, "momentum")) {
      analysis->optimiser_momentum =
          std::max(analysis->optimiser_momentum,
                   ConstantScalar(run, momentum->producer).value_or(0));
    }
  }
  for (size_t root = 0; root < effects.variables.size(); ++root) {
    if (!is_trained(root) || with_rate.count(root) > 0) continue;
    analysis->without_rate = effects.variables[root]->name();
  }
  analysis->learning_rates.assign(rates.begin(), rates.end());
}

}  // namespace tensorbow
