#include "cc/trainer/central_gate.h"

#include <algorithm>
#include <vector>

#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

bool WritesVariables(const RunAnalysis& analysis) {
  return std::any_of(analysis.variables.begin(), analysis.variables.end(),
                     [](const auto& variable) { return variable.second.written; });
}

}  // namespace

std::string CentralGate::WhyOneLearner() const {
  return open_writers_.load() > 0 ? "a partial run that writes variables has not ended"
                                  : "";
}

absl::Status CentralGate::PrepareRun(const Program& program, bool may_block,
                                     bool central_bypasses) {
  state_->mu().AssertHeld();
  VariableTable* const variables = state_->variables();
  if (!may_block) {
    if (!state_->replicates() || active_.load() > 0) return absl::OkStatus();
    return variables->ReleaseStale(state_->writes().captured());
  }
  if (state_->replicates()) {
    if (central_bypasses) {
      TF_RETURN_IF_ERROR(variables->Publish(program.state.variables));
    }
    TF_RETURN_IF_ERROR(variables->PublishReleased());
  }
  // Last: runs beside this one read the values published above.
  state_->gate().MayBlock();
  return absl::OkStatus();
}

// Begin() may return with the state's lock held, which the destructor then releases:
// clang's annotations cannot express a lock that is held on a condition.
absl::Status CentralRun::Begin(CentralGate* gate, const RunAnalysis& analysis)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  gate_ = gate;
  state_ = gate->state_;
  analysis_ = &analysis;
  gate->active_.fetch_add(1);
  state_->writes().RecordCaptured(analysis);
  if (!state_->replicates() || analysis.variables.empty()) return absl::OkStatus();
  writes_ = WritesVariables(analysis);
  // A run that a learning run may be waiting for must not wait for it: it uses the
  // central values published last.
  if (!state_->gate().EnterCentral(/*immediate=*/analysis.may_block)) {
    return absl::OkStatus();
  }
  state_->mu().Lock();
  locked_ = true;
  state_->MarkWrites();
  if (state_->variables() != nullptr) TF_RETURN_IF_ERROR(Publish());
  if (!writes_ || analysis.may_block || analysis.reads_iterator) Unlock();
  return absl::OkStatus();
}

absl::Status CentralRun::Publish() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  VariableTable* const variables = state_->variables();
  std::vector<int> reached, written;
  for (const auto& [name, use] : analysis_->variables) {
    const int id = variables->Find(name);
    if (id < 0) continue;
    reached.push_back(id);
    if (use.written) written.push_back(id);
  }
  if (analysis_->kind == RunAnalysis::Kind::kLearning) {
    TF_RETURN_IF_ERROR(state_->ApplyRestarts());
    TF_RETURN_IF_ERROR(variables->Gather(written));
  }
  return variables->Publish(reached);
}

void CentralRun::Unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  locked_ = false;
  state_->mu().Unlock();
  state_->gate().Leave();
}

// A write is a write, whatever the value: replicas that differ from z must start from
// the written value even if z held it already.
void CentralRun::End() {
  if (writes_) state_->writes().RecordWrites(*analysis_);
}

CentralRun::~CentralRun() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (locked_) Unlock();
  if (gate_ != nullptr) gate_->active_.fetch_sub(1);
}

void OpenRun::Begin(CentralGate* gate, const RunAnalysis& analysis) {
  gate_ = gate;
  gate->active_.fetch_add(1);
  writes_ = gate->state_->replicates() && WritesVariables(analysis);
  if (writes_) gate->open_writers_.fetch_add(1);
}

OpenRun::~OpenRun() {
  if (gate_ == nullptr) return;
  gate_->active_.fetch_sub(1);
  if (writes_) gate_->open_writers_.fetch_sub(1);
}

}  // namespace tensorbow
