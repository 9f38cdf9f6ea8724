#include "cc/rewrite/average_at_loss.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/reduce_gradients.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// DT_INVALID if it is not known.
tf::DataType TypeOf(const ProgramGraph& graph, const std::string& tensor) {
  const TensorName name = ParseTensor(tensor);
  const tf::NodeDef* const node = graph.Find(name.node);
  const tf::OpDef* op = nullptr;
  tf::DataTypeVector types;
  if (node == nullptr || !graph.functions().LookUpOpDef(node->op(), &op).ok() ||
      !tf::OutputTypesForNode(*node, *op, &types).ok()) {
    return tf::DT_INVALID;
  }
  return types.at(name.index);
}

bool CanBeReduced(tf::DataType type) {
  return type == tf::DT_FLOAT || type == tf::DT_DOUBLE || type == tf::DT_HALF ||
         type == tf::DT_BFLOAT16;
}

// What identities hand on as `tensor`.
std::string HandedOn(const ProgramGraph& graph, std::string tensor) {
  const tf::NodeDef* node = graph.Find(ParseTensor(tensor).node);
  while (node != nullptr && node->op() == "Identity") {
    tensor = Canonical(node->input(0));
    node = graph.Find(ParseTensor(tensor).node);
  }
  return tensor;
}

// Whether the op, not an optimiser's, writes to a variable that is not trained, a file
// of summaries or the like.
bool WritesState(const tf::NodeDef& node, const ProgramGraph& graph,
                 const RunAnalysis& analysis) {
  const tf::OpDef* op = nullptr;
  if (FactsOf(node.op()).optimiser != OptimiserKind::kNone || node.input().empty() ||
      !graph.functions().LookUpOpDef(node.op(), &op).ok() ||
      std::none_of(op->input_arg().begin(), op->input_arg().end(),
                   [&node](const tf::OpDef::ArgDef& input) {
                     return WritesInput(node.op(), input);
                   })) {
    return false;
  }
  const std::string written = HandedOn(graph, Canonical(node.input(0)));
  const auto variable = analysis.variables.find(std::string(ParseTensor(written).node));
  return variable == analysis.variables.end() || !variable->second.trained;
}

// The nodes that compute the gradients, and all that these are computed from.
absl::flat_hash_set<std::string> MakersOf(
    const ProgramGraph& graph, const std::map<std::string, std::string>& gradients) {
  absl::flat_hash_set<std::string> makers;
  std::vector<std::string> open;
  for (const auto& [gradient, name] : gradients) open.push_back(gradient);
  while (!open.empty()) {
    const tf::NodeDef* const node = graph.Find(ParseTensor(open.back()).node);
    open.pop_back();
    if (node == nullptr || !makers.insert(node->name()).second) continue;
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) open.push_back(input);
    }
  }
  return makers;
}

}  // namespace

GradientsAtLoss FindGradientsAtLoss(const ProgramGraph& graph, const RunSpec& spec,
                                    const RunAnalysis& analysis) {
  GradientsAtLoss found;
  std::vector<const tf::NodeDef*> nodes;
  if (graph.Needed(spec, &nodes).ok()) {
    found.reduced = std::any_of(
        nodes.begin(), nodes.end(),
        [](const tf::NodeDef* node) { return node->op() == kReduceGradient; });
  }
  for (GradientSource& source : FindGradientSources(graph, spec, analysis)) {
    if (analysis.variables.count(source.variable) == 0) continue;  // a mark
    found.transformed |= source.transformed;
    if (source.indices.empty() && !source.is_value && source.shape.IsFullyDefined() &&
        !source.of_transformed_rows && CanBeReduced(TypeOf(graph, source.tensor))) {
      found.dense.push_back(std::move(source));
    } else {
      found.transformed_else |= source.transformed;
    }
  }
  return found;
}

bool FollowsFromGradients(const ProgramGraph& graph, const RunSpec& spec,
                          const RunAnalysis& analysis,
                          const std::vector<GradientSource>& gradients) {
  std::vector<const tf::NodeDef*> nodes;
  if (!graph.Needed(spec, &nodes).ok()) return false;
  absl::flat_hash_set<std::string> sources;
  for (const GradientSource& gradient : gradients) {
    sources.insert(Canonical(gradient.tensor));
  }
  std::vector<std::string> open;
  for (const std::string& fetch : spec.fetches) {
    open.push_back(HandedOn(graph, Canonical(fetch)));
  }
  for (const tf::NodeDef* node : nodes) {
    if (node->op() == kReduceGradient) sources.insert(Canonical(node->input(0)));
    if (!WritesState(*node, graph, analysis)) continue;
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) {
        open.push_back(HandedOn(graph, Canonical(input)));
      }
    }
  }
  // A gradient that is only handed on is a learner's own.
  open.erase(
      std::remove_if(open.begin(), open.end(),
                     [&](const auto& tensor) { return sources.contains(tensor); }),
      open.end());
  absl::flat_hash_set<std::string> seen;
  while (!open.empty()) {
    const std::string tensor = std::move(open.back());
    open.pop_back();
    if (sources.contains(tensor)) return true;
    const tf::NodeDef* const node = graph.Find(ParseTensor(tensor).node);
    const tf::OpDef* op = nullptr;
    if (node == nullptr || !graph.functions().LookUpOpDef(node->op(), &op).ok() ||
        HasEffects(*op) || !seen.insert(node->name()).second) {
      continue;
    }
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) open.push_back(Canonical(input));
    }
  }
  return false;
}

absl::Status AverageAtLoss(const ProgramGraph& graph, const RunSpec& spec,
                           const std::vector<GradientSource>& gradients,
                           ProgramGraph* averaged) {
  tf::GraphDef rewritten;
  TF_RETURN_IF_ERROR(graph.Closure(spec, &rewritten));
  std::map<std::string, std::string> names;
  std::vector<tf::NodeDef> added;
  for (const tf::NodeDef& node : rewritten.node()) {
    if (node.op() == kReduceGradient) names[Canonical(node.input(0))] = node.name();
  }
  for (const GradientSource& gradient : gradients) {
    if (names.count(gradient.tensor) > 0) continue;
    const TensorName name = ParseTensor(gradient.tensor);
    const std::string reduction =
        absl::StrCat(name.node, "/TensorBow.average.", name.index);
    names[gradient.tensor] = reduction;
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(reduction, kReduceGradient)
                           .Input(name.node, name.index, TypeOf(graph, gradient.tensor))
                           .Attr("index", 0)
                           .Attr("shape", gradient.shape)
                           .Finalize(&added.emplace_back()));
  }
  // Some gradients are computed from others, as those below a normalisation from that
  // of its offset. They are computed from the learner's own: a reduction cannot wait
  // for another one's result.
  const auto makers = MakersOf(graph, names);
  // What only hands the value on keeps a learner's own: TensorFlow has the gradients of
  // one op wait for each other there.
  const auto hands_on = [&names](const tf::NodeDef& node) {
    return node.op() == "Identity" && names.count(Canonical(node.input(0))) > 0;
  };
  for (size_t before = 0; before != names.size();) {
    before = names.size();
    for (const tf::NodeDef& node : rewritten.node()) {
      if (!hands_on(node)) continue;
      names.emplace(Canonical(node.name()), names.at(Canonical(node.input(0))));
    }
  }
  for (tf::NodeDef& node : *rewritten.mutable_node()) {
    if (hands_on(node) || node.op() == kReduceGradient ||
        makers.contains(node.name())) {
      continue;
    }
    for (std::string& input : *node.mutable_input()) {
      if (ParseTensor(input).control) continue;
      const auto found = names.find(Canonical(input));
      if (found != names.end()) input = found->second;
    }
  }
  for (tf::NodeDef& node : added) *rewritten.add_node() = std::move(node);
  return averaged->Extend(rewritten);
}

std::set<std::string> FetchesOfAverages(const ProgramGraph& averaged,
                                        const RunSpec& spec) {
  std::set<std::string> same;
  std::vector<const tf::NodeDef*> nodes;
  if (!averaged.Needed(spec, &nodes).ok()) return same;
  absl::flat_hash_set<std::string> averages;
  for (const tf::NodeDef* node : nodes) {
    if (node->op() == kReduceGradient) averages.insert(Canonical(node->name()));
  }
  const RunSpec rows = FedRows(averaged, spec);
  const auto by_rows = DependOnFeeds(rows, nodes);
  const auto otherwise = DependOnFeeds(rows, nodes, averages);
  for (const std::string& fetch : spec.fetches) {
    const std::string node(ParseTensor(fetch).node);
    if (by_rows.contains(node) && !otherwise.contains(node)) same.insert(fetch);
  }
  return same;
}

}  // namespace tensorbow
