// The ops by which a task updates a variable and its slots element by element, and
// their computation.
#ifndef TENSORBOW_CC_PASSES_TASK_ELEMENT_UPDATE_H_
#define TENSORBOW_CC_PASSES_TASK_ELEMENT_UPDATE_H_

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/arithmetic/element_program.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/shape_functions.h"
#include "cc/passes/task/assigned_variables.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

using AssignedVariables = std::map<const tensorflow::Node*, AssignedVariable>;

// The static shapes of a graph's tensors.
class StaticShapes {
 public:
  explicit StaticShapes(const tensorflow::Graph& graph);

  bool Is(const NodeOutput& tensor, const tensorflow::TensorShape& shape) const;
  // Returns whether the tensor has one element and at most `rank` axes.
  bool IsSingle(const NodeOutput& tensor, int rank) const;

 private:
  // Returns nullopt if the rank is not known; -1 for an unknown size.
  std::optional<std::vector<int64_t>> Of(const NodeOutput& tensor) const;

  const ShapeFunctions ops_;
  tensorflow::ShapeRefiner refiner_;
};

class ElementUpdate {
 public:
  // A value of the computation.
  struct Operand {
    enum class Kind { kArray, kGradient, kScalar, kInstruction };
    Kind kind;
    int index;  // the index among those of its kind

    bool operator==(const Operand& other) const {
      return kind == other.kind && index == other.index;
    }
  };

  struct Instruction {
    ElementOp op;
    Operand a, b;
  };

  // Reads the updates of `variable` and of the variables of its shape that they take.
  // `updated`: nodes downstream of assignments. `whole_gradient`: whether everything
  // that does not depend on an assigned variable belongs to the gradient. Keeps the
  // references. Returns nullopt if an op does not work element by element. There must
  // be exactly one gradient, computed before anything is assigned.
  static std::optional<ElementUpdate> Read(const AssignedVariables& variables,
                                           const AssignedVariable& variable,
                                           const Followers& updated,
                                           const StaticShapes& shapes,
                                           bool whole_gradient);

  // Returns the variable, then its slots.
  const std::vector<const AssignedVariable*>& arrays() const { return arrays_; }
  const NodeOutput& gradient() const { return gradient_; }
  const std::vector<NodeOutput>& scalars() const { return scalars_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  // Returns the instructions with each array's new value, each a different one.
  const std::vector<Operand>& results() const { return results_; }
  // Return the ops besides assignments, and the reads among them with the number of
  // assignments before each.
  const std::set<tensorflow::Node*>& ops() const { return ops_; }
  const std::map<tensorflow::Node*, int>& reads() const { return reads_; }

 private:
  using Value = std::optional<Operand>;

  ElementUpdate(const AssignedVariables& variables, const AssignedVariable& variable,
                const Followers& updated, const StaticShapes& shapes,
                bool whole_gradient)
      : variables_(&variables),
        updated_(&updated),
        shapes_(&shapes),
        whole_gradient_(whole_gradient),
        arrays_{&variable} {}

  bool ReadAll();
  const AssignedVariable& first() const { return *arrays_[0]; }
  std::optional<int> AddArray(const AssignedVariable& variable);
  Value Append(ElementOp op, const Value& a, const Value& b);
  Operand ResultOf(const Operand& value);
  // Returns the array's value after that many assignments.
  Value After(int array, int count);
  Value ValueOf(const NodeOutput& tensor);
  Value Compute(const NodeOutput& tensor);
  Value ComputeOp(const tensorflow::Node& node);
  Value ValueRead(const AssignedVariable& variable, tensorflow::Node* read);
  // Returns the assigned variable from which the tensor is read, or null.
  const AssignedVariable* VariableOf(const NodeOutput& tensor) const;
  bool MayBeGradient(const tensorflow::Node& node) const;
  bool DependsOnVariables(const NodeOutput& tensor);
  // Returns whether the node depends on feeds, other data or random numbers.
  bool DependsOnData(const tensorflow::Node& node);
  bool IsScalar(const NodeOutput& tensor);

  const AssignedVariables* variables_;
  const Followers* updated_;
  const StaticShapes* shapes_;
  bool whole_gradient_;
  std::vector<const AssignedVariable*> arrays_;
  NodeOutput gradient_;
  std::vector<NodeOutput> scalars_;
  std::vector<Instruction> instructions_;
  std::vector<Operand> results_;
  std::set<tensorflow::Node*> ops_;
  std::map<tensorflow::Node*, int> reads_;
  std::map<std::pair<tensorflow::Node*, int>, Value> values_;
  std::map<std::pair<int, int>, Value> after_;
  std::map<const tensorflow::Node*, bool> depends_, of_data_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_ELEMENT_UPDATE_H_
