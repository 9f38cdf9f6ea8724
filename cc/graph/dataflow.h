// The reads and writes of a graph: the variables that reach each op, the effects of the
// op on them, and the dependences of the written values. Follows calls of functions.
#ifndef TENSORBOW_CC_GRAPH_DATAFLOW_H_
#define TENSORBOW_CC_GRAPH_DATAFLOW_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tensorbow {

// The effects of nodes on one root: a variable of the graph, an argument of a function.
struct Effects {
  bool read = false;
  bool written = false;
  bool accumulated = false;         // by an accumulating op
  bool replaced = false;            // by any other write
  bool replaced_by_itself = false;  // … whose value depends on the root
  bool generator = false;
  OptimiserKind optimiser = OptimiserKind::kNone;  // the strongest of its updates

  // Adds the effects of a function on its argument, which is the root.
  void AddCall(const Effects& inside);
};

// The effects of all nodes of a graph, or of a function.
struct EffectSummary {
  std::vector<Effects> roots;
  bool may_block = false;
  bool reads_iterator = false;
  bool takes_data = false;       // from a pipeline, a queue, …
  bool calls_take_data = false;  // in a function that a node calls
  bool calls_python = false;     // itself
  bool varies = false;           // draws random numbers or takes data
  std::string central_only;
};

// A function that a node calls, and the first of the node's inputs that is an argument.
struct Call {
  std::string function;
  int first_argument;
};
std::vector<Call> CallsOf(const tensorflow::NodeDef& node,
                          const tensorflow::FunctionLibraryDefinition& functions);

// An input of a node with the op's declaration of it.
struct Input {
  absl::string_view producer;  // "" if the tensor is fed
  const tensorflow::OpDef::ArgDef* declaration;
};

class FunctionSummaries;

// The nodes of a run or of a function, as a dataflow graph with tracked roots. Does not
// own the nodes. Thread-compatible.
class Dataflow {
 public:
  using IsFed = std::function<bool(absl::string_view tensor)>;

  Dataflow(std::vector<const tensorflow::NodeDef*> nodes,
           const tensorflow::FunctionLibraryDefinition& functions, IsFed is_fed);

  // Adds a root; roots are numbered in this order.
  void AddRoot(absl::string_view name);

  const std::vector<const tensorflow::NodeDef*>& nodes() const { return nodes_; }

  std::vector<Input> Inputs(const tensorflow::NodeDef& node) const;

  // Returns the roots that `name` passes on, unchanged, to its consumers.
  const std::set<int>& Traced(absl::string_view name);

  // Returns the roots at the node's first input, the one that it updates.
  std::set<int> FirstRoots(const tensorflow::NodeDef& node);

  // Returns whether the value of `name` depends on reading one of the roots that
  // satisfy `wanted`.
  bool DependsOn(absl::string_view name, const std::function<bool(int)>& wanted);

  // Returns that for any input of the node but the first.
  bool OperandsDependOn(const tensorflow::NodeDef& node,
                        const std::function<bool(int)>& wanted);

  EffectSummary Summarise(FunctionSummaries* callees);

  // Returns the roots whose new value depends on more than themselves and constants: on
  // feeds, data, random numbers, or another of these roots.
  std::set<int> WrittenFromOutside(FunctionSummaries* callees);

 private:
  bool Reaches(absl::string_view name,
               const std::function<bool(absl::string_view producer)>& wanted);
  std::set<int> Written(const tensorflow::NodeDef& node, FunctionSummaries* callees);
  bool Varies(const tensorflow::NodeDef& node, FunctionSummaries* callees) const;
  void NoteOp(const tensorflow::NodeDef& node, FunctionSummaries* callees,
              EffectSummary* summary) const;
  void NoteInput(const tensorflow::NodeDef& node, const std::vector<Input>& inputs,
                 size_t index, int root, Effects* effects);
  void PushWrittenBefore(const tensorflow::NodeDef& read,
                         std::vector<absl::string_view>* pending);

  const std::vector<const tensorflow::NodeDef*> nodes_;
  const tensorflow::FunctionLibraryDefinition& functions_;
  const IsFed is_fed_;
  absl::flat_hash_map<absl::string_view, const tensorflow::NodeDef*> by_name_;
  absl::flat_hash_map<absl::string_view, int> roots_;
  std::map<absl::string_view, std::set<int>> traced_;
};

// Summaries of functions by their arguments, each made once. Thread-compatible.
class FunctionSummaries {
 public:
  explicit FunctionSummaries(const tensorflow::FunctionLibraryDefinition& functions)
      : functions_(functions) {}

  const EffectSummary& Of(const std::string& name);

 private:
  const tensorflow::FunctionLibraryDefinition& functions_;
  std::map<std::string, std::unique_ptr<EffectSummary>> summaries_;
};

// Returns the name of a variable's node if the tensor is only that variable's value:
// the variable, a read, an assignment's result, or identities of these; else "".
// `effects` receives the nodes to execute before the value is valid: assignments on the
// way and control inputs.
std::string VariableReadBy(const ProgramGraph& graph, absl::string_view tensor,
                           std::vector<std::string>* effects);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_DATAFLOW_H_
