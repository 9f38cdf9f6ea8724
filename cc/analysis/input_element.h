// What a run takes from input pipelines, queues and staging areas, and what Python
// functions make of that and of its feeds: found, so that it can be taken before the
// run and be fed to it. Pure functions.
#ifndef TENSORBOW_CC_ANALYSIS_INPUT_ELEMENT_H_
#define TENSORBOW_CC_ANALYSIS_INPUT_ELEMENT_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"

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

// `spec`, fed the element: the tensors follow the feeds, and are fetched no more.
RunSpec WithElement(const RunSpec& spec, const PipelineElement& element);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_INPUT_ELEMENT_H_
