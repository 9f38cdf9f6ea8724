// What an op is: whether it creates, reads or updates variables, keeps state of its
// own, or may wait. Decided by the op's name and declaration alone. Pure functions.
#ifndef TENSORBOW_CC_GRAPH_OP_KINDS_H_
#define TENSORBOW_CC_GRAPH_OP_KINDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace tensorbow {

// Whether `op` creates a variable.
bool IsVariableOp(absl::string_view op);

// Whether an op that takes a resource variable leaves it as it is.
bool OnlyReadsResource(absl::string_view op);

// Whether such an op may read it after it has been executed, too: a data pipeline's.
bool KeepsResource(absl::string_view op);

// Whether `op` writes to the variable that it takes as this input.
bool WritesInput(absl::string_view op, const tensorflow::OpDef::ArgDef& input);

// By which rule an optimiser op updates a variable, its first input; ordered.
enum class OptimiserKind {
  kNone,             // it is not an optimiser op
  kGradientDescent,  // proximal or not
  kOther,            // momentum, Adam, RMSProp, Adagrad, Ftrl, PowerSign, …
};
OptimiserKind OptimiserKindOf(absl::string_view op);

// Whether the op updates a variable by what it reads of it: v ← f(v, operand).
bool IsAccumulatingOp(absl::string_view op);

// Whether the op advances the state of a random number generator in a variable.
bool IsGeneratorOp(absl::string_view op);

// Whether the op may wait for another run of the same session.
bool MayBlock(absl::string_view op);

// Whether the op takes an element out of a pipeline, a queue or the like, or looks at
// one that is there; whether it puts one in.
bool TakesData(absl::string_view op);
bool PutsElement(absl::string_view op);

// Whether the op calls a function of the program's, in Python, that may do anything.
// (A PyFuncStateless does what a pure function does.)
bool CallsPython(absl::string_view op);

// Whether the op does nothing but look at values, and complain of them or print them.
bool OnlyLooksAt(absl::string_view op);

// Whether an op of this declaration does more than compute from its inputs and look at
// them: it keeps state, or takes a variable by reference.
bool HasEffects(const tensorflow::OpDef& op);

// Whether the op belongs to a pipeline of tf.data.
bool IsDatasetOp(absl::string_view op);

// Why a run with this op cannot be executed by learners, or "".
std::string WhyCentralOnly(absl::string_view op);

// From which inputs the op passes a variable, or its value, on unchanged.
enum class Forwards { kNothing, kFirstInput, kAllInputs };
Forwards ForwardsOf(absl::string_view op);

// Whether the op takes a reference to a variable and hands the same reference on, as
// Assign does.
bool HandsReferenceOn(const tensorflow::OpDef& op);

// Whether the kernel of this node must exist once per session: a stateful op, not a
// variable, with `container` and `shared_name`.
bool HasSharedKernel(const tensorflow::NodeDef& node, const tensorflow::OpDef& op);

// Whether the kernel of this node keeps the state of a random number generator: it has
// seeds of its own.
bool KeepsRandomState(const tensorflow::NodeDef& node, const tensorflow::OpDef& op);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_OP_KINDS_H_
