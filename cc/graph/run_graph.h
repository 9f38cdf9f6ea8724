// The part of a program's graph that one run needs, and facts about it that are
// computed once. Thread-safe. REQUIRES: the program's graph outlives it and does not
// grow during a call; its nodes keep their addresses.
#ifndef TENSORBOW_CC_GRAPH_RUN_GRAPH_H_
#define TENSORBOW_CC_GRAPH_RUN_GRAPH_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

class RunGraph {
 public:
  // A tensor input of a node that the run needs.
  struct Use {
    const tensorflow::NodeDef* node;
    int input;
  };
  // A tensor whose leading dimension is the number of rows that a task took from an
  // input pipeline.
  struct RowSource {
    std::string tensor;
    bool has_rows;  // whatever its static shape: it holds several elements of a queue
  };

  // Returns NotFound if a name of the spec does not exist.
  static absl::StatusOr<std::shared_ptr<const RunGraph>> Of(const ProgramGraph& program,
                                                            RunSpec spec);

  const ProgramGraph& program() const { return program_; }
  const tensorflow::FunctionLibraryDefinition& functions() const {
    return program_.functions();
  }
  const RunSpec& spec() const { return spec_; }

  // Returns the nodes that the run needs, in the order of the graph; nothing upstream
  // of a feed.
  const std::vector<const tensorflow::NodeDef*>& nodes() const { return nodes_; }
  // Returns a node of the program, needed or not; or null.
  const tensorflow::NodeDef* Find(absl::string_view node) const {
    return program_.Find(node);
  }
  bool Needs(absl::string_view node) const { return needed_.contains(node); }
  bool IsFed(absl::string_view tensor) const;
  // Returns whether a node that the run needs, or a fetch, takes the tensor.
  bool Uses(absl::string_view tensor) const { return used_.contains(tensor); }

  // Returns the needed nodes that take an output of `node`, or wait for it.
  absl::Span<const Use> consumers(absl::string_view node) const;

  // Returns whether the tensor lies inside a conditional or a loop of the graph itself.
  bool InControlFlow(absl::string_view tensor) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the static shape of a tensor "node:index" of the program.
  const tensorflow::PartialTensorShape& Shape(const std::string& tensor) const
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the first tensor whose rows are those of the run's data, or an empty text.
  std::string RowsTensor() const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the producers from which the nodes `from` are computed, themselves
  // included. `follow(node, input)` decides whether to continue to the input's
  // producer.
  template <typename Follow>
  std::vector<const tensorflow::NodeDef*> Reach(
      std::vector<const tensorflow::NodeDef*> from, Follow follow) const;

 private:
  RunGraph(const ProgramGraph& program, RunSpec spec)
      : program_(program), spec_(std::move(spec)) {}

  const ProgramGraph& program_;
  const RunSpec spec_;
  std::vector<const tensorflow::NodeDef*> nodes_;
  absl::flat_hash_set<absl::string_view> needed_;
  absl::flat_hash_set<std::string> feeds_;
  absl::flat_hash_set<std::string> used_;
  absl::flat_hash_map<absl::string_view, std::vector<Use>> consumers_;
  std::vector<RowSource> row_sources_;

  mutable absl::Mutex mu_;
  mutable absl::flat_hash_map<std::string, bool> in_control_flow_ ABSL_GUARDED_BY(mu_);
  mutable std::map<std::string, tensorflow::PartialTensorShape> shapes_
      ABSL_GUARDED_BY(mu_);
};

template <typename Follow>
std::vector<const tensorflow::NodeDef*> RunGraph::Reach(
    std::vector<const tensorflow::NodeDef*> from, Follow follow) const {
  std::vector<const tensorflow::NodeDef*> reached, pending = std::move(from);
  absl::flat_hash_set<const tensorflow::NodeDef*> seen;
  while (!pending.empty()) {
    const tensorflow::NodeDef* const node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    reached.push_back(node);
    for (const std::string& input : node->input()) {
      if (!follow(*node, input)) continue;
      const tensorflow::NodeDef* const producer = Find(ParseTensor(input).node);
      if (producer != nullptr) pending.push_back(producer);
    }
  }
  return reached;
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_RUN_GRAPH_H_
