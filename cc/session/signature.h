// A run by its feeds, fetches and targets, analysed once.
#ifndef TENSORBOW_CC_SESSION_SIGNATURE_H_
#define TENSORBOW_CC_SESSION_SIGNATURE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cc/analysis/run_analysis.h"
#include "cc/program/program.h"

namespace tensorbow {

struct ElementRuns;

struct Signature {
  RunSpec spec;
  RunAnalysis analysis;
  std::shared_ptr<Program> program;  // null unless learners execute the run
  std::string why_central;           // the reason why a learning run has no program
  uint64_t step = 0;  // equal for traces of one step; 0: the run is the only one
  // The last fetch of the central session, for its number of rows. Empty unless a
  // learning run takes data from the graph.
  std::string rows_tensor;
  // The two runs that divide the rows of an element; null for other runs.
  std::shared_ptr<ElementRuns> element;

  // Returns whether learners may execute the run.
  inline bool for_learners() const;
};

// The parts of a learning run that takes an element from a pipeline, a queue or Python
// functions: one takes it, one is fed it. They have programs of their own.
struct ElementRuns {
  std::shared_ptr<const Signature> input_run;  // fetches the element's tensors
  std::shared_ptr<const Signature> fed_run;    // is fed them
  // An element could not be divided: the central session executes all later runs.
  std::atomic<bool> refused{false};
};

bool Signature::for_learners() const {
  return program != nullptr || (element != nullptr && element->fed_run->for_learners());
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_SIGNATURE_H_
