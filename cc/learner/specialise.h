// The copy of a task's graph that one learner executes: its variables live in a
// container of its own and its random ops draw numbers of their own. Pure functions.
#ifndef TENSORBOW_CC_LEARNER_SPECIALISE_H_
#define TENSORBOW_CC_LEARNER_SPECIALISE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// The differences of one learner's copy.
struct Specialisation {
  int learner = 0;
  // Separates its draws from those of other learners, also on other hosts.
  int random_stream = 0;
  // True if the learner has variables of its own; otherwise it uses the central ones.
  bool own_variables = true;
  // Names of variables that all learners share, although learner 0 has its own.
  std::set<std::string> shared_variables;
  // True if the learner's random ops have streams of their own, which can be saved;
  // otherwise their kernels keep the state, as in a stock session.
  bool own_random_state = true;
  // A seed for the random ops that the program left unseeded.
  std::optional<int64_t> seed;
};

// Returns the container with learner `learner`'s copies of the variables that the
// program keeps in `container`.
std::string LearnerContainer(int learner, const std::string& container);

// Returns one learner's copy of the task graph.
absl::StatusOr<TaskGraph> SpecialiseTaskGraph(const TaskGraph& task,
                                              const Specialisation& specialisation);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_SPECIALISE_H_
