// The fixpoint: types the tensors of a graph, and of the functions it calls, by the
// rules, until nothing changes.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPE_FLOW_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPE_FLOW_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/typed_graph.h"

namespace tensorbow {

// The types of one run while they are computed. Thread-compatible.
class TypeFlow {
 public:
  // The types of fed tensors, by node and output.
  using Given = std::map<std::pair<int, int>, RowType>;

  // The run's graph and its functions outlive the flow.
  TypeFlow(const TypedGraph& graph,
           const tensorflow::FunctionLibraryDefinition& functions,
           const absl::flat_hash_set<std::string>& trainable,
           std::shared_ptr<SizeTable> sizes, bool gathers)
      : graph_(graph),
        functions_(functions),
        trainable_(trainable),
        sizes_(std::move(sizes)),
        gathers_(gathers) {}

  // Types all tensors that `ends` need. Called once.
  void Run(const Given& given, const std::vector<const tensorflow::Node*>& ends);
  RowTypes Take();

 private:
  friend class OpView;

  // A graph while it is typed.
  struct Frame {
    const TypedGraph* graph = nullptr;
    std::string prefix;        // of paths
    std::vector<Types> types;  // by node and output
    std::vector<bool> given;   // by node: none of its outputs is typed by a rule
    // The call whose function this is, and its caller; null in loops and at the top.
    const Frame* caller = nullptr;
    const tensorflow::Node* call = nullptr;
    int first_argument = 0;
  };
  struct Notes {
    std::vector<RowNeed> needs;
    std::vector<RowWrite> writes;
  };

  void Walk(Frame* frame, const std::vector<const tensorflow::Node*>& ends);
  // Returns the types of a node's outputs; empty while it cannot be typed.
  Types Evaluate(const Frame& frame, const tensorflow::Node& node);
  // Returns the types of an op's outputs, whose inputs are typed.
  Types Typed(const Frame& frame, OpView& op, const Types& in);
  Types Apply(OpView& op, const Types& in);
  // Returns whether the op accepts a learner's own number of rows as a size.
  bool TakesOwnSizes(const OpView& op, const Types& in);
  // Types an op by own rows instead of all, or else by all rows; returns `outputs` if
  // neither has a type.
  Types ApplyToOtherRows(const Frame& frame, OpView& op, const Types& in,
                         Types outputs);
  // Fills in an output's static shape.
  RowType Complete(const Frame& frame, OpView& op, int output, RowType type);
  // Returns whether the node takes a tensor with a dimension that every learner is fed
  // as a whole.
  bool TakesOfFeed(const Frame& frame, const tensorflow::Node& node) const;
  bool IsExchanged(const Frame& frame, const TypedGraph::Tensor& tensor) const;
  // Returns the tensor to exchange instead of `tensor`, from which all of its users
  // follow.
  TypedGraph::Tensor Hoisted(const Frame& frame, const TypedGraph::Tensor& tensor,
                             RowKind kind) const;
  // Records that learners exchange the tensor, in the place where it is computed or
  // passed to a function.
  void Exchange(const Frame& frame, const TypedGraph::Tensor& tensor, RowKind kind);
  Types Call(const std::string& function, const Types& arguments,
             const std::string& prefix, const tensorflow::Node* call,
             const std::vector<tensorflow::PartialTensorShape>& shapes);
  static std::string NameOf(const Frame& frame, const TypedGraph::Tensor& tensor);

  const TypedGraph& graph_;
  const tensorflow::FunctionLibraryDefinition& functions_;
  const absl::flat_hash_set<std::string>& trainable_;
  const std::shared_ptr<SizeTable> sizes_;
  const bool gathers_;

  absl::flat_hash_set<std::string> exchanged_;  // tensors, by path
  absl::flat_hash_map<std::string, RowType> types_;
  std::map<std::string, Notes> notes_;  // by path of a node
  std::map<std::string, RowType> stacks_;
  absl::flat_hash_set<std::string> called_;  // paths of nodes whose functions are typed
  absl::flat_hash_map<std::string, std::unique_ptr<TypedGraph>> bodies_;
  Frame* frame_ = nullptr;        // the frame being walked
  const Given* given_ = nullptr;  // of the run
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPE_FLOW_H_
