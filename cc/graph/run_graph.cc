#include "cc/graph/run_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/shapes.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Adds the outputs of a node that supplies a task with data.
void AddRowSources(const tf::NodeDef& node, std::vector<RunGraph::RowSource>* sources) {
  const std::string& op = node.op();
  const bool of_queue = absl::StartsWith(op, "QueueDequeueMany") ||
                        absl::StartsWith(op, "QueueDequeueUpTo");
  const bool of_iterator =
      op == kIteratorGetRows ||
      (absl::StartsWith(op, "IteratorGetNext") && op != "IteratorGetNextAsOptional");
  if (!of_queue && !of_iterator) return;
  const auto& types = node.attr().at(of_queue ? "component_types" : "output_types");
  for (int i = 0; i < types.list().type_size(); ++i) {
    sources->push_back({absl::StrCat(node.name(), ":", i), of_queue});
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RunGraph>> RunGraph::Of(
    const ProgramGraph& program, RunSpec spec) {
  std::shared_ptr<RunGraph> run(new RunGraph(program, std::move(spec)));
  TF_RETURN_IF_ERROR(program.Needed(run->spec_, &run->nodes_));
  run->feeds_ = FeedsOf(run->spec_);
  run->used_.insert(run->spec_.fetches.begin(), run->spec_.fetches.end());
  for (const tf::NodeDef* node : run->nodes_) {
    run->needed_.insert(node->name());
    AddRowSources(*node, &run->row_sources_);
    for (int i = 0; i < node->input_size(); ++i) {
      const TensorName input = ParseTensor(node->input(i));
      run->consumers_[input.node].push_back({node, i});
      if (!input.control) run->used_.insert(absl::StrCat(input.node, ":", input.index));
    }
  }
  return run;
}

bool RunGraph::IsFed(absl::string_view tensor) const {
  return !feeds_.empty() && !ParseTensor(tensor).control &&
         feeds_.contains(Canonical(tensor));
}

absl::Span<const RunGraph::Use> RunGraph::consumers(absl::string_view node) const {
  const auto found = consumers_.find(node);
  if (found == consumers_.end()) return {};
  return found->second;
}

bool RunGraph::InControlFlow(absl::string_view tensor) const {
  const std::string node(ParseTensor(tensor).node);
  absl::MutexLock lock(&mu_);
  const auto known = in_control_flow_.find(node);
  if (known != in_control_flow_.end()) return known->second;
  return in_control_flow_[node] = LiesInControlFlow(program_, node);
}

const tf::PartialTensorShape& RunGraph::Shape(const std::string& tensor) const {
  absl::MutexLock lock(&mu_);
  if (shapes_.empty()) {
    // Infers these shapes first: they are asked for most and need the smallest graph.
    RunSpec first;
    first.feeds = spec_.feeds;
    first.fetches = spec_.fetches;
    for (const RowSource& source : row_sources_) {
      first.fetches.push_back(source.tensor);
    }
    shapes_ = InferShapes(program_, first);
  }
  const auto known = shapes_.find(tensor);
  if (known != shapes_.end()) return known->second;
  RunSpec all;
  all.feeds = spec_.feeds;
  all.fetches.push_back(tensor);
  for (const tf::NodeDef* node : nodes_) {
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) all.fetches.push_back(Canonical(input));
    }
  }
  shapes_.merge(InferShapes(program_, all));
  return shapes_[tensor];
}

std::string RunGraph::RowsTensor() const {
  for (const RowSource& source : row_sources_) {
    if (std::count(spec_.feeds.begin(), spec_.feeds.end(), source.tensor) > 0) continue;
    if (!source.has_rows) {
      const tf::PartialTensorShape& shape = Shape(source.tensor);
      if (shape.unknown_rank() || shape.dims() == 0) continue;
    }
    // A tensor in a branch or a loop may have no value in a task.
    if (!InControlFlow(source.tensor)) return source.tensor;
  }
  return "";
}

}  // namespace tensorbow
