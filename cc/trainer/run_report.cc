#include "cc/trainer/run_report.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

std::string NameOf(const RunSpec& spec) {
  return absl::StrCat("run ", absl::StrJoin(spec.targets, ", "),
                      spec.targets.empty() ? absl::StrJoin(spec.fetches, ", ") : "");
}

}  // namespace

bool IsTraced(const RunRequest& request) {
  return request.metadata != nullptr &&
         (request.run_options->trace_level() > tf::RunOptions::NO_TRACE ||
          request.run_options->report_tensor_allocations_upon_oom());
}

void RecordRun(TrainingState* state, const Program& program, const LearningRun& run) {
  const std::string name =
      state->activity().recording() ? NameOf(program.compiled()->task) : "";
  const VariableTable& variables = *state->variables();
  state->activity().EndRun(NowNanos(), name, run.NumRows(), [&](int64_t index) {
    for (int id = 0; id < variables.size(); ++id) {
      if (!variables.trained(id) || variables.model_index(id) != index) continue;
      return variables.node(id).name();
    }
    return std::string();
  });
}

void AppendMetadata(const RunRequest& request, LearningRun* run) {
  if (request.metadata == nullptr) return;
  run->AppendStats(request.metadata->mutable_step_stats());
  if (!request.run_options->output_partition_graphs()) return;
  Learner::AppendGraph(run->FirstProgram(), request.metadata->add_partition_graphs());
}

}  // namespace tensorbow
