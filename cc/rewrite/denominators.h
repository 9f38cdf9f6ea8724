// Scalars that a learning run computes from the rows that it is fed and divides by: how
// many positions are not masked, what weights add up to. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_DENOMINATORS_H_
#define TENSORBOW_CC_REWRITE_DENOMINATORS_H_

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "cc/rewrite/program_graph.h"
#include "cc/rewrite/run_analysis.h"

namespace tensorbow {

// Whether the tensor is computed from a variable that the run trains, by operations
// that hand gradients back.
bool DependsOnTrained(const ProgramGraph& graph, const RunAnalysis& analysis,
                      absl::string_view tensor);

struct Denominator {
  std::set<std::string> users;  // nodes that divide by it
  // It depends on more of what is fed than its shape.
  bool by_values = false;
};
// By tensor. Only those without a gradient; perhaps not all of them scalars.
std::map<std::string, Denominator> FindDenominators(const ProgramGraph& graph,
                                                    const RunSpec& spec,
                                                    const RunAnalysis& analysis);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_DENOMINATORS_H_
