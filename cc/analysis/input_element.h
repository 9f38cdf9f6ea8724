// Finds the data that a run takes from input pipelines, queues and staging areas. Also
// finds results of Python functions on them and on feeds. All of these can be computed
// before the run and fed to it. Pure functions.
#ifndef TENSORBOW_CC_ANALYSIS_INPUT_ELEMENT_H_
#define TENSORBOW_CC_ANALYSIS_INPUT_ELEMENT_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/run_graph.h"

namespace tensorbow {

struct PipelineElement {
  std::vector<std::string> tensors;  // "IteratorGetNext:0", each once
  // The indices, values and shape of each sparse tensor among them.
  std::vector<std::array<std::string, 3>> sparse;
};

// Finds all data that a run takes from the graph, and its Python functions that need
// nothing else: they are called once, with all rows, as by a stock session. Fetching
// the tensors takes the element once; a run that is fed them takes nothing.
// FailedPrecondition, with the reason, if data cannot be taken before the run.
// `analysis`: of the run.
absl::StatusOr<PipelineElement> FindPipelineElement(const RunGraph& run,
                                                    const RunAnalysis& analysis);

// Returns `spec` with the element fed: its tensors follow the feeds, and are not
// fetched.
RunSpec WithElement(const RunSpec& spec, const PipelineElement& element);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_INPUT_ELEMENT_H_
