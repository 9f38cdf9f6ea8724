// A rule's view of one op, and the table of rules.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_RULE_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_RULE_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/analysis/row_types/types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

class TypeFlow;
struct TypedGraph;

// One op while it is typed. Rules ask here for the exchanges and rescales they need.
class OpView {
 public:
  OpView(TypeFlow* flow, const TypedGraph& graph, const tensorflow::Node* node,
         std::string path);

  absl::string_view op() const { return node_->type_string(); }
  const tensorflow::Node& node() const { return *node_; }
  const std::string& path() const { return path_; }  // of the node
  SizeTable& sizes() const;
  bool is(std::initializer_list<absl::string_view> ops) const;

  int num_outputs() const { return node_->num_outputs(); }
  tensorflow::DataType input_type(int i) const;
  tensorflow::DataType output_type(int k) const;
  const tensorflow::PartialTensorShape& OutputShape(int k) const;
  const tensorflow::PartialTensorShape& InputShape(int i) const;
  std::string InputName(int i) const;  // of input `i` in the op's definition
  // Returns the tensor with the elements of input `i`, perhaps in another shape.
  std::string SourceOf(int i) const;
  template <typename T>
  T Attr(absl::string_view name, T otherwise) const {
    T value;
    if (node_->attrs().Find(name) == nullptr ||
        !tensorflow::GetNodeAttr(node_->attrs(), name, &value).ok()) {
      return otherwise;
    }
    return value;
  }
  bool Flag(absl::string_view name) const { return Attr<bool>(name, false); }

  RowType Unknown(absl::string_view reason) const;

  // Returns the value of all rows, which learners exchange if the type is partial.
  RowType Exchanged(int i, RowType type);
  // Returns the value times r^(exponent - its exponent).
  RowType Rescaled(int i, RowType type, int exponent = 0);
  // Returns the value for an op that is not linear in it: not partial, exponent 0.
  RowType Flat(int i, RowType type);
  Types Flats(Types types);

  // Records a need of the op.
  void Need(RowNeed::Kind kind, int input, RowType type = {}, int exponent = 0);
  void Need(RowNeed need);
  // Returns whether the op may be given the rows of all learners.
  bool gathers() const;
  // Returns whether it is computed from the state of a random number generator; each
  // learner has a generator of its own.
  bool FollowsFromGenerator() const;
  void Write(int input, RowType value, bool trained, absl::string_view variable);

  // Returns the numbers of a shape, or of indices; null if they are not known.
  static const Sizes* Numbers(const RowType& type) {
    return type.numbers.has_value() ? &*type.numbers : nullptr;
  }
  // Returns the only number of a constant scalar.
  std::optional<int64_t> Constant(const RowType& type) const;
  // Returns an unknown type with the reason why numbers are not known.
  RowType UnknownNumbers(const RowType& type, absl::string_view what) const;

  bool trains(absl::string_view variable) const;
  // Returns whether all users of the output accept values of distinct indices.
  bool IsOnlyLookedUp() const;
  // Returns whether the op lies in a function, a conditional or a loop.
  bool MayNotBeExecuted() const;
  // Returns the output types of a function of the library for these arguments.
  Types Call(const std::string& function, const Types& arguments,
             absl::string_view label);
  // Returns the values on the stack of a handle.
  RowType& StackOf(const std::string& handle);

 private:
  TypeFlow* const flow_;
  const TypedGraph& graph_;
  const tensorflow::Node* const node_;
  const std::string path_;
};

// Returns the types of an op's outputs; a single one stands for all of them.
using Rule = Types (*)(OpView& op, Types in);

class RuleTable {
 public:
  // Returns the rules of all families.
  static const RuleTable& Get();

  void Set(std::initializer_list<absl::string_view> ops, Rule rule);
  Rule Find(absl::string_view op) const;  // Returns the rule; null if there is none.

 private:
  absl::flat_hash_map<std::string, Rule> rules_;
};

void AddElementwiseRules(RuleTable* rules);
void AddReductionRules(RuleTable* rules);
void AddProductRules(RuleTable* rules);
void AddShapeRules(RuleTable* rules);
void AddPieceRules(RuleTable* rules);
void AddCutRules(RuleTable* rules);
void AddPartitionRules(RuleTable* rules);
void AddIndexRules(RuleTable* rules);
void AddDataRules(RuleTable* rules);
void AddControlFlowRules(RuleTable* rules);

// Returns whether the op passes on its first input, whatever its type.
bool HandsOn(absl::string_view op);
// Returns whether the op writes a variable.
bool IsWrite(absl::string_view op);
// Returns whether an op changes state that learners share, other than variables.
bool ActsOnOwnState(const tensorflow::Node& node);
Types TypeWrite(OpView& op, Types in);
// Types an op with an input of kBlocks.
Types TypeBlocks(OpView& op, Types in);
// Types the distinct indices of rows.
Types TypeUnique(OpView& op, Types in);
// Types lookups by distinct indices, and lookups in their results; nullopt for others.
std::optional<RowType> TypeLookup(OpView& op, const Types& in);
// Returns whether an op may take values of distinct indices (kOfSlots).
bool MayTakeValuesOfSlots(absl::string_view op);
// Types an op whose result follows from known numbers of elements.
std::optional<Types> TypeNumbers(OpView& op, const Types& in);
// Returns the type of an array of numbers with dimensions `dims`.
RowType TypeOfNumbers(SizeTable& sizes, Sizes dims, Sizes numbers);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_RULE_H_
