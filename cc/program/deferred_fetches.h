// The fetches of a learning run that are computed once, after the learners' tasks, by
// the central session: histograms, merged summaries, metrics that mix rows.
//
// Only fetches depend on the deferred nodes, which are executed with the values of all
// rows. Tasks fetch their inputs instead.
#ifndef TENSORBOW_CC_PROGRAM_DEFERRED_FETCHES_H_
#define TENSORBOW_CC_PROGRAM_DEFERRED_FETCHES_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/feeds/fetches.h"
#include "cc/graph/program_graph.h"
#include "cc/graph/run_graph.h"
#include "cc/program/compiled_program.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// The choice of nodes to defer. Thread-compatible.
class Deferral {
 public:
  // `original`: the user's graph; `graph`: the same before exchanges are inserted,
  // which outlives this. `program` has its fetches.
  static absl::StatusOr<Deferral> Of(const ProgramGraph& original,
                                     const ProgramGraph& graph,
                                     const CompiledProgram& program);

  // Defers more nodes, for the types of the tensors that tasks compute: those that have
  // none or take all rows, and those that take long and are the same on all learners.
  // Returns whether there are any.
  bool Extend(const RowTypes& types);

  // Returns the run without the deferred nodes.
  RunSpec Rest(const RunSpec& spec) const;
  // Makes tasks execute the rest. InvalidArgument if learners' values of an input
  // cannot be combined.
  absl::Status Apply(const RowTypes& types, CompiledProgram* program) const;

 private:
  using Node = tensorflow::NodeDef;

  Deferral() = default;
  void FindCandidates(const ProgramGraph& original, const CompiledProgram& program);
  bool IsCandidate(const ProgramGraph& original, const Node& node) const;
  // Defers a candidate and all that depends on it.
  void Defer(const Node& node);
  // Does so for a candidate, and for producers of inputs that cannot be combined.
  // Returns false, and defers nothing, if one of these is no candidate.
  bool TryDefer(absl::string_view node, const RowTypes& types);
  bool DeferUncombinable(const RowTypes& types);
  void DeferUntyped(const RowTypes& types);
  void DeferLongWork(const RowTypes& types);
  // Defers producers of deferred nodes' inputs that have few inputs themselves: tasks
  // then need not exchange these.
  void DeferScalars(const RowTypes& types);
  bool IsDeferred(absl::string_view tensor) const {
    return deferred_.contains(ParseTensor(tensor).node);
  }
  // Returns the inputs of deferred nodes that are not deferred themselves.
  std::set<std::string> Inputs() const;

  std::shared_ptr<const RunGraph> run_;
  absl::flat_hash_set<std::string> kept_;          // nodes whose outputs tasks return
  absl::flat_hash_set<std::string> constants_;     // nodes of the user's graph
  std::set<std::string, std::less<>> candidates_;  // nodes
  absl::flat_hash_set<std::string> deferred_;
};

// The rest of an executed run, in the user's graph.
struct DeferredRun {
  std::vector<std::pair<std::string, tensorflow::Tensor>> feeds;
  std::vector<std::string> fetches;
  std::vector<int> places;  // of the fetches, among those of the run
};

// Returns the rest of a run that is fed `feeds`. Nothing is fetched if nothing is
// deferred.
absl::StatusOr<DeferredRun> DeferredRunOf(const CompiledProgram& program,
                                          const std::vector<tensorflow::Tensor>& feeds,
                                          const std::vector<TaskOutcome>& tasks);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_DEFERRED_FETCHES_H_
