// What a graph reads and writes: which variables reach which ops, what these do to
// them, and what the values that they write depend on. Follows calls of functions.
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
#include "cc/graph/op_kinds.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tensorbow {

// What nodes do with one root: a variable of the graph, an argument of a function.
struct Effects {
  bool read = false;
  bool written = false;
  bool accumulated = false;         // by an accumulating op
  bool replaced = false;            // by any other write
  bool replaced_by_itself = false;  // … whose value depends on the root
  bool generator = false;
  OptimiserKind optimiser = OptimiserKind::kNone;  // the greatest of its updates

  // Adds what a function does with the argument that the root is given as.
  void AddCall(const Effects& inside);
};

// What all nodes of a graph, or of a function, do.
struct EffectSummary {
  std::vector<Effects> roots;
  bool may_block = false;
  bool reads_iterator = false;
  bool takes_data = false;       // out of a pipeline, a queue, …
  bool calls_take_data = false;  // in a function that a node calls
  bool calls_python = false;     // itself
  bool varies = false;           // draws random numbers or takes data
  std::string central_only;
};

// A function that a node calls, and from which of its inputs on its arguments come.
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

// The nodes of a run or of a function, seen as a dataflow graph with the roots that are
// tracked. Does not own the nodes. Thread-compatible.
class Dataflow {
 public:
  using IsFed = std::function<bool(absl::string_view tensor)>;

  Dataflow(std::vector<const tensorflow::NodeDef*> nodes,
           const tensorflow::FunctionLibraryDefinition& functions, IsFed is_fed);

  // Roots are numbered in the order in which they are added.
  void AddRoot(absl::string_view name);

  const std::vector<const tensorflow::NodeDef*>& nodes() const { return nodes_; }

  std::vector<Input> Inputs(const tensorflow::NodeDef& node) const;

  // The roots that `name` hands on, unchanged, to its consumers.
  const std::set<int>& Traced(absl::string_view name);

  // The roots that the node takes as its first input: what it updates.
  std::set<int> FirstRoots(const tensorflow::NodeDef& node);

  // Whether the value of `name` depends on reading one of the roots that satisfy
  // `wanted`.
  bool DependsOn(absl::string_view name, const std::function<bool(int)>& wanted);

  // The same for any input of the node but the first.
  bool OperandsDependOn(const tensorflow::NodeDef& node,
                        const std::function<bool(int)>& wanted);

  EffectSummary Summarise(FunctionSummaries* callees);

  // The roots that get a value which depends on more than roots and constants: on what
  // is fed, on data, on random numbers, or on another of these roots.
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

// If the tensor is nothing but a variable's value (the variable itself, a read of it,
// identities of those, what an assignment hands on), the name of that variable's node;
// else "". `effects` gets the nodes that must have been executed for the value to be
// the one meant: assignments on the way and control inputs.
std::string VariableReadBy(const ProgramGraph& graph, absl::string_view tensor,
                           std::vector<std::string>* effects);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_DATAFLOW_H_
