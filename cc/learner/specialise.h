// The copy of a task's graph that one learner executes: its variables live in a
// container of its own and its random ops draw numbers of their own. Pure functions.
#ifndef TENSORBOW_CC_LEARNER_SPECIALISE_H_
#define TENSORBOW_CC_LEARNER_SPECIALISE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// How one learner's copy differs.
struct Specialisation {
  int learner = 0;
  // Tells its draws from those of other learners, on other hosts too.
  int random_stream = 0;
  // Whether the learner has variables of its own (else it uses the central ones).
  bool own_variables = true;
  // Names of those of which all learners have one copy, where learner 0 has its own.
  std::set<std::string> shared_variables;
  // Whether the learner's random ops have streams of their own, which can be saved
  // (else their kernels keep the state, as in a stock session).
  bool own_random_state = true;
  // Makes the random ops that the program left unseeded reproducible.
  std::optional<int64_t> seed;
};

// The container that holds learner `learner`'s copies of the variables that the
// program keeps in `container`.
std::string LearnerContainer(int learner, const std::string& container);

// Copies the library and the graphs for one learner; `parts`, in the order of the task
// graph's, use `functions`.
absl::Status SpecialiseTaskGraph(
    const TaskGraph& task, const Specialisation& specialisation,
    std::unique_ptr<tensorflow::FunctionLibraryDefinition>* functions,
    std::vector<std::unique_ptr<tensorflow::Graph>>* parts);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_SPECIALISE_H_
