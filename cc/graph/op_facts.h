// The facts about an op that follow from its name: one table, a row for an op or a
// family of ops. Thread-safe, pure functions.
#ifndef TENSORBOW_CC_GRAPH_OP_FACTS_H_
#define TENSORBOW_CC_GRAPH_OP_FACTS_H_

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tensorbow {

// Takes elements of an iterator until they have the requested number of rows.
constexpr char kIteratorGetRows[] = "TensorBowIteratorGetRows";
// The ops by which learners exchange values, scale them by their rows, and average
// them.
constexpr char kExchange[] = "TensorBowExchange";
constexpr char kMeanOfAllRows[] = "TensorBowMeanOfAllRows";
constexpr char kOwnRows[] = "TensorBowOwnRows";
constexpr char kRescale[] = "TensorBowRescale";
constexpr char kReduceGradient[] = "TensorBowReduceGradient";
constexpr char kReduceRows[] = "TensorBowReduceRows";
// An attribute of a variable's node: the rule that makes the central value from
// learners' values of an untrained variable. "sum" adds them (accumulators: the central
// value goes to learner 0, the others start from zero); "first" takes learner 0's;
// "generator" does, too, and gives every learner a state of its own.
constexpr char kAggregationAttribute[] = "_tensorbow_aggregation";
// Marks the node of a variable that eager code owns (offered_variables.h).
constexpr char kEagerAttribute[] = "_tensorbow_eager";

// The rule by which an optimiser op updates a variable, its first input; ordered.
enum class OptimiserKind {
  kNone,             // it is not an optimiser op
  kGradientDescent,  // proximal or not
  kOther,            // momentum, Adam, RMSProp, Adagrad, Ftrl, PowerSign, …
};

// The inputs from which an op passes a variable, or its value, on unchanged.
enum class Forwards { kNothing, kFirstInput, kAllInputs };

// The effect of executing an op a second time in the same run.
enum class Repetition {
  kUnknown,       // follows from the declaration of the op
  kHandsInputOn,  // returns its first input, perhaps with rows in another order
  kHarmless,      // changes only state of the execution, or looks values up
};

// The form of an op's update of some rows of a variable.
enum class RowUpdate { kNone, kOptimiser, kScatterSum, kFusedAdam };

// An op that draws numbers of a shape.
struct Draw {
  int shape;               // the input that holds the shape
  int least;               // the input with the least value; -1: `typical` instead
  double typical;          // near the upper end of a uniform draw, else near the mean
  const char* dtype;       // the attribute with the output's type
  const char* shape_type;  // the attribute with the shape's type
};

struct OpFacts {
  // Variables.
  bool creates_variable = false;
  bool only_reads_resource =
      false;                        // does not change a resource variable that it takes
  bool keeps_resource = false;      // may read the variable later, too
  bool accumulates = false;         // v ← f(v, operand)
  bool advances_generator = false;  // of random numbers, in a variable
  OptimiserKind optimiser = OptimiserKind::kNone;
  RowUpdate row_update = RowUpdate::kNone;
  Forwards forwards = Forwards::kNothing;

  // Data and waiting.
  bool may_block = false;   // waits for another run of the session
  bool takes_data = false;  // takes an element of a pipeline or store, or looks at it
  bool empties_store = false;  // takes an element of a queue, a staging area, a barrier
  bool puts_data = false;      // puts an element into one
  bool is_dataset = false;     // belongs to a pipeline of tf.data
  bool is_iterator = false;

  // Effects.
  bool calls_python = false;    // without PyFuncStateless, which is pure
  bool only_checks = false;     // checks values or prints them
  bool selects_branch = false;  // its first input chooses the function that is called
  Repetition repetition = Repetition::kUnknown;
  bool draws = false;          // draws random numbers
  const Draw* draw = nullptr;  // null: no constant can replace the draw
  // The reason why learners cannot execute a run with the op; empty if they can.
  absl::string_view why_central;
};

// Returns the facts about the op; an unknown op has none.
const OpFacts& FactsOf(absl::string_view op);

// Returns the program's name for a node. TensorBow's node beside another one
// ("w/TensorBow.average") has the other's.
absl::string_view ProgramsName(absl::string_view node);

// The facts below follow from an op's declaration, or from a node.

// Returns whether `op` writes to the variable that it takes as this input.
bool WritesInput(absl::string_view op, const tensorflow::OpDef::ArgDef& input);

// Returns whether an op of this declaration does more than compute from its inputs and
// check them: it keeps state, or takes a variable by reference.
bool HasEffects(const tensorflow::OpDef& op);

// Returns whether the op passes on the reference to a variable that it takes, as Assign
// does.
bool HandsReferenceOn(const tensorflow::OpDef& op);

// Returns whether the node's kernel must exist once per session: a stateful op, not a
// variable, with `container` and `shared_name`.
bool HasSharedKernel(const tensorflow::NodeDef& node, const tensorflow::OpDef& op);

// Returns whether the node's kernel keeps the state of a random number generator, with
// seeds of its own.
bool KeepsRandomState(const tensorflow::NodeDef& node, const tensorflow::OpDef& op);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_OP_FACTS_H_
