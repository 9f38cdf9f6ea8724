// Variables of eager code on their way into a session.
//
// Eager code and a session have resource managers that do not see each other. The op
// TensorBowOfferVariable executes eagerly and leaves the Var of a handle here;
// TensorBowSession::AdoptVariable() takes it out. Both hold the Var from then on.
// Thread-safe.
#ifndef TENSORBOW_CC_REPLICAS_OFFERED_VARIABLES_H_
#define TENSORBOW_CC_REPLICAS_OFFERED_VARIABLES_H_

#include <cstdint>

#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/refcount.h"

namespace tensorbow {

// Leaves a variable under a number that nobody else uses.
void OfferVariable(int64_t number, tensorflow::core::RefCountPtr<tensorflow::Var> var);

// Takes it out; null if there is none of that number.
tensorflow::core::RefCountPtr<tensorflow::Var> TakeOfferedVariable(int64_t number);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REPLICAS_OFFERED_VARIABLES_H_
