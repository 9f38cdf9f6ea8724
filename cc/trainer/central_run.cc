// What the central session and its user see of the variables that learners have copies
// of: Trainer::CentralRun, LearnerValue and CentralValue.
#include "cc/trainer/central_run.h"

#include "absl/strings/str_cat.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

// Begin() may return with the trainer's mu_ held, and the destructor releases it then:
// clang's annotations know no lock that is held on a condition.
absl::Status Trainer::CentralRun::Begin(Trainer* trainer, const RunAnalysis& analysis)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  trainer_ = trainer;
  analysis_ = &analysis;
  trainer->central_runs_.fetch_add(1);
  trainer->NoteCaptured(analysis);
  if (!trainer->replicates() || analysis.variables.empty()) {
    return absl::OkStatus();
  }
  for (const auto& [name, use] : analysis.variables) writes_ |= use.written;
  // A run that a learning run may be waiting for must not wait for it: it uses the
  // central values published last.
  if (!trainer->turns_.TakeCentral(/*at_once=*/analysis.may_block)) {
    return absl::OkStatus();
  }
  trainer->mu_.Lock();
  locked_ = true;
  trainer->NoteWrites();
  if (trainer->variables_ != nullptr) {
    std::vector<int> reached, written;
    for (const auto& [name, use] : analysis.variables) {
      const int id = trainer->variables_->Find(name);
      if (id < 0) continue;
      reached.push_back(id);
      if (use.written) written.push_back(id);
    }
    if (analysis.kind == RunAnalysis::Kind::kLearning) {
      TF_RETURN_IF_ERROR(trainer->RestartIfAsked());
      TF_RETURN_IF_ERROR(trainer->variables_->Gather(written));
    }
    TF_RETURN_IF_ERROR(trainer->variables_->Publish(reached));
  }
  if (!writes_ || analysis.may_block || analysis.reads_iterator) Unlock();
  return absl::OkStatus();
}

void Trainer::CentralRun::Unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  locked_ = false;
  trainer_->mu_.Unlock();
  trainer_->turns_.End();
}

// A write is a write, whatever the value: replicas that differ from z must start from
// what was written even if z held that already.
void Trainer::CentralRun::End() {
  if (!writes_) return;
  absl::MutexLock lock(&trainer_->writes_mu_);
  for (const auto& [name, use] : analysis_->variables) {
    if (use.written) trainer_->writes_.insert(name);
  }
}

Trainer::CentralRun::~CentralRun() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (locked_) Unlock();
  if (trainer_ != nullptr) trainer_->central_runs_.fetch_sub(1);
}

void Trainer::OpenRun::Begin(Trainer* trainer, const RunAnalysis& analysis) {
  trainer_ = trainer;
  trainer->central_runs_.fetch_add(1);
  if (!trainer->replicates()) return;
  for (const auto& [name, use] : analysis.variables) writes_ |= use.written;
  if (writes_) trainer->open_writers_.fetch_add(1);
}

Trainer::OpenRun::~OpenRun() {
  if (trainer_ == nullptr) return;
  trainer_->central_runs_.fetch_sub(1);
  if (writes_) trainer_->open_writers_.fetch_sub(1);
}

std::string Trainer::WhyOneLearnerNow() const {
  std::string why;
  if (open_writers_.load() > 0) {
    why = "a partial run that writes variables has not ended";
  }
  return why;
}

void Trainer::NoteCaptured(const RunAnalysis& analysis) {
  for (const auto& [name, use] : analysis.variables) {
    if (!use.captured) continue;
    absl::MutexLock lock(&writes_mu_);
    captured_.insert(name);
  }
}

absl::Status Trainer::PrepareCentral(bool waits, bool read_meanwhile,
                                     const Program& program) {
  if (!waits) {
    if (!replicates() || central_runs_.load() > 0) return absl::OkStatus();
    absl::MutexLock lock(&writes_mu_);
    return variables_->ReleaseStale(captured_);
  }
  if (replicates()) {
    if (read_meanwhile)
      TF_RETURN_IF_ERROR(variables_->Publish(program.state.variables));
    TF_RETURN_IF_ERROR(variables_->PublishReleased());
  }
  // Not earlier: what goes on beside this run reads what has just been published.
  turns_.MayWait();
  return absl::OkStatus();
}

absl::StatusOr<int> Trainer::FindReplicated(const std::string& variable) {
  NoteWrites();
  const int id = variables_ == nullptr ? -1 : variables_->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return id;
}

absl::StatusOr<tf::Tensor> Trainer::LearnerValue(const std::string& variable,
                                                 int learner) {
  absl::MutexLock lock(&mu_);
  TF_ASSIGN_OR_RETURN(const int id, FindReplicated(variable));
  return variables_->ReplicaValue(id, learner);
}

absl::StatusOr<tf::Tensor> Trainer::CentralValue(const std::string& variable,
                                                 CentralModel::Which which) {
  absl::MutexLock lock(&mu_);
  TF_ASSIGN_OR_RETURN(const int id, FindReplicated(variable));
  return variables_->ModelValue(id, which);
}

}  // namespace tensorbow
