// A copy of a part of the program's graph that can be evaluated again and again without
// anybody noticing, and gives the same values each time: nothing is written, no data is
// taken, random numbers are constants. So two evaluations differ by what is fed alone.
//
// The copy reads the variables and the tables of the program. Weights are moved a
// little from what they are: initial values are special (zeros make gradients vanish
// that will not stay so). Pure function.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_REPEATABLE_COPY_H_
#define TENSORBOW_CC_PASSES_PROGRAM_REPEATABLE_COPY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

struct ProofGraph {
  // The copy, and what it reads of the program.
  std::unique_ptr<ProgramGraph> graph;
  std::vector<std::string> feeds;    // in the order of the run's
  std::vector<std::string> fetches;  // in the order of the tensors wanted
  // A tensor of the copy that may be fed, where the program has a kMeanTogether
  // (insert_exchanges.h): what learners exchange. Computed by the copy where it is not
  // fed.
  struct Exchange {
    std::string tensor;
    bool is_part = false;         // `how` is "part"
    bool is_denominator = false;  // has to be exchanged (kMustMeet)
  };
  std::vector<Exchange> exchanges;
};

// Copies what `wanted`, tensors of the run `spec`, need. `moved`: variables, by node,
// whose values are moved. FailedPrecondition, saying why, if that cannot be done
// without side effects.
absl::Status BuildProofGraph(const ProgramGraph& program, const RunSpec& spec,
                             const std::vector<std::string>& wanted,
                             const absl::flat_hash_set<std::string>& moved,
                             ProofGraph* proof);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_REPEATABLE_COPY_H_
