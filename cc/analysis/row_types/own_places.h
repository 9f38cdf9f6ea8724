// Ops that may take the indices of a learner's own rows (types.h: OwnPlaces).
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_OWN_PLACES_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_OWN_PLACES_H_

#include "absl/strings/string_view.h"

namespace tensorbow {

// Returns whether the op's rule supports such indices at input `i`.
bool MayBeOwnPlaces(absl::string_view op, int i);

// Returns whether the op's result has such indices if an input has. An op that should
// keep them, but does not, uses them as numbers.
bool KeepsOwnPlaces(absl::string_view op);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_OWN_PLACES_H_
