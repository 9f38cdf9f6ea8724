#include "cc/passes/pipeline.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cc/graph/graph_dump.h"
#include "cc/passes/check_graph.h"
#include "cc/passes/program_passes.h"
#include "cc/passes/task_passes.h"

namespace tensorbow {

// Returns all passes; each decides to which runs it applies.

Pipeline ProgramPipeline() {
  Pipeline p;
  p.Add<CutAtElementPass>();
  p.Add<ResizeConstantsPass>();
  return p;
}

Pipeline ExchangePipeline() {
  Pipeline p;
  p.Add<InlineFunctionsPass>();
  p.Add<LowerConditionalsPass>();
  p.Add<InsertExchangesPass>();
  p.Add<CountIterationsPass>();
  p.Add<ScaleRatesPass>();
  p.Add<BatchElementsPass>();
  p.Add<UnpinVariablesPass>();
  return p;
}

// Returns the passes after lowering. LowerTask() prunes, places and optimises the run
// as a stock session does.

Pipeline TaskPipeline() {
  Pipeline p;
  p.Add<UnrollLoopsPass>();
  p.Add<SimplifyShapesPass>();
  p.Add<FoldShapesPass>();
  p.Add<DivideTaskPass>();
  p.Add<UseOneDnnPass>();
  p.Add<OptimisePass>();
  p.Add<FuseSparseAdamPass>();
  p.Add<FuseElementUpdatesPass>();
  p.Add<FuseUpdatesPass>();
  p.Add<ReduceGradientsPass>();
  p.Add<FuseSparseProductsPass>();
  p.Add<FuseProductsPass>();
  p.Add<ShareVariablesPass>();
  p.Add<SendGradientsPass>();
  p.Add<ExchangeMomentsPass>();
  return p;
}

namespace {

std::string TextFor(const ProgramDraft& draft) {
  return SortedText(draft.graph().graph_def());
}

std::string TextFor(const TaskGraph& task) {
  std::string text;
  for (const TaskPart& part : task.parts) {
    absl::StrAppend(&text, SortedText(*part.graph), "\n");
  }
  return text;
}

// Prefixes an error with the name of the pass, unless it is about the run.
absl::Status WithName(absl::string_view pass, const absl::Status& status) {
  if (status.ok() || absl::IsInvalidArgument(status)) return status;
  return absl::Status(status.code(), absl::StrCat(pass, ": ", status.message()));
}

template <typename Graph>
absl::Status RunPasses(const std::vector<std::unique_ptr<Pass<Graph>>>& passes,
                       const CompileInput& in, Graph* graph, TaskTraits* traits) {
  for (const auto& pass : passes) {
    const absl::StatusOr<bool> changed = pass->Run(in, graph, traits);
    if (!changed.ok()) return WithName(pass->name(), changed.status());
    if (!*changed) continue;
    if (DumpsGraphs()) DumpText(pass->name(), TextFor(*graph));
    const absl::Status checked = CheckGraph(*graph);
    if (!checked.ok()) return WithName(pass->name(), checked);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Pipeline::RunOnProgram(const CompileInput& in, ProgramDraft* draft,
                                    TaskTraits* traits) const {
  return RunPasses(program_, in, draft, traits);
}

absl::Status Pipeline::RunOnTask(const CompileInput& in, TaskGraph* task,
                                 TaskTraits* traits) const {
  return RunPasses(task_, in, task, traits);
}

}  // namespace tensorbow
