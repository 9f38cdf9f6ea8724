// What a run takes from input pipelines, queues and staging areas, and what Python
// functions make of that and of its feeds: found, so that it can be taken before the
// run and be fed to it. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_PIPELINE_ELEMENT_H_
#define TENSORBOW_CC_REWRITE_PIPELINE_ELEMENT_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/rewrite/program_graph.h"
#include "cc/rewrite/run_analysis.h"

namespace tensorbow {

struct PipelineElement {
  std::vector<std::string> tensors;  // "IteratorGetNext:0", each once
  // Of those tensors: the indices, values and shape of each sparse one.
  std::vector<std::array<std::string, 3>> sparse;
};

// Everything that a run takes from the graph's data, and of its Python functions
// those that need nothing else: they are called once, with all rows, as by a stock
// session. Fetching the tensors takes it once; a run that is fed them takes nothing.
// FailedPrecondition, with the reason, where data cannot be taken before the run.
// `analysis`: of the run.
absl::StatusOr<PipelineElement> FindPipelineElement(const ProgramGraph& graph,
                                                    const RunSpec& spec,
                                                    const RunAnalysis& analysis);

// What stands in a task for an op that made what the task is fed.
constexpr char kElement[] = "TensorBowElement";

// `cut` ← what `spec`, which is fed an element, needs of `graph`, with kElement in the
// place of the ops that made it: TensorFlow's optimiser would have constants wait for
// those. Not done, and false, where none is fed.
absl::StatusOr<bool> CutAtElement(const ProgramGraph& graph, const RunSpec& spec,
                                  ProgramGraph* cut);

// `spec`, fed the element: the tensors follow the feeds, and are fetched no more.
RunSpec WithElement(const RunSpec& spec, const PipelineElement& element);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_PIPELINE_ELEMENT_H_
