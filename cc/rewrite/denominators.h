// What a learning run computes from the values of the rows that it is fed, and divides
// by: how many positions are not masked, what weights add up to. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_DENOMINATORS_H_
#define TENSORBOW_CC_REWRITE_DENOMINATORS_H_

#include <map>
#include <set>
#include <string>

#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

struct Denominator {
  std::set<std::string> users;  // the nodes that divide by it
  // Where it is a total that is kept from being too small by a constant, as in
  // max(total, 1) or total + ε: that tensor, and the node that takes it. Else empty.
  std::string total;
  std::string total_user;
};

// By tensor. Only what depends on more of the feeds than their shapes, and has no
// gradient; perhaps not all of them scalars.
std::map<std::string, Denominator> FindDenominators(const ProgramGraph& graph,
                                                    const RunSpec& spec,
                                                    const RunAnalysis& analysis);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_DENOMINATORS_H_
