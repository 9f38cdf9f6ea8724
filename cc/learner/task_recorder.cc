#include "cc/learner/task_recorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/synchroniser/update_access.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

absl::Status Discarded() {
  return absl::CancelledError(
      "The iteration is discarded because another learner's task failed");
}

std::string MovesItself(const std::string& variable) {
  return absl::StrCat("the task moves variable '", variable,
                      "' to another buffer, where a replay would not find it");
}

}  // namespace

TaskRecorder::TaskRecorder(AcceleratorDevice* accelerator, TaskVariables variables,
                           std::string obstacle,
                           std::function<void(const std::string&)> refused)
    : accelerator_(accelerator),
      variables_(std::move(variables)),
      refused_(std::move(refused)) {
  if (!obstacle.empty()) Refuse(obstacle);
}

TaskRecorder::~TaskRecorder() { Forget(); }

void TaskRecorder::Refuse(const std::string& why) {
  Forget();
  obstacle_ = why;
  if (refused_) refused_(why);
}

void TaskRecorder::Forget() {
  warm_ = false;
  if (recording_ == nullptr) return;
  // A replay may be under way.
  accelerator_->Finish().IgnoreError();
  recording_.reset();
  feeds_.clear();
  fetches_.clear();
}

absl::Status TaskRecorder::Run(const Tensors& feeds, int64_t generation,
                               const Execute& execute, Tensors* fetches) {
  if (!obstacle_.empty()) return execute(feeds, fetches);
  if (generation != std::exchange(generation_, generation)) Forget();
  if (recording_ != nullptr) {
    TaskVariables::Addresses now;
    TF_RETURN_IF_ERROR(variables_.Locate(&now));
    const std::string moved = variables_.Moved(addresses_, now);
    if (moved.empty()) {
      TF_RETURN_IF_ERROR(Replay(feeds));
      *fetches = fetches_;
      return absl::OkStatus();
    }
    Forget();
    if (++forgotten_ == kForgottenRecordings) {
      Refuse(absl::StrCat("variable '", moved, "' moves to another buffer again and ",
                          "again between tasks"));
      return execute(feeds, fetches);
    }
  }
  if (!warm_) return WarmUp(feeds, execute, fetches);
  const absl::Status recorded = Record(feeds, execute);
  if (absl::IsCancelled(recorded)) return recorded;
  if (!recorded.ok()) {
    const bool for_good = absl::IsUnimplemented(recorded) || ++failed_ == kAttempts;
    if (for_good) Refuse(std::string(recorded.message()));
    warm_ = false;
    return execute(feeds, fetches);
  }
  TF_RETURN_IF_ERROR(Replay(feeds));
  *fetches = fetches_;
  return absl::OkStatus();
}

absl::Status TaskRecorder::WarmUp(const Tensors& feeds, const Execute& execute,
                                  Tensors* fetches) {
  TaskVariables::Addresses before, after;
  TF_RETURN_IF_ERROR(variables_.Locate(&before));
  TF_RETURN_IF_ERROR(execute(feeds, fetches));
  TF_RETURN_IF_ERROR(variables_.Locate(&after));
  variables_.AddMoved(before, after, &moving_);
  warm_ = true;
  return absl::OkStatus();
}

absl::Status TaskRecorder::Enqueue(const Tensors& feeds, const Execute& execute,
                                   Tensors* fetches) {
  Tensors held;
  TF_RETURN_IF_ERROR(variables_.Hold(moving_, &held));
  TF_RETURN_IF_ERROR(execute(feeds, fetches));
  // A fetched value of before the task stays what it was.
  for (tf::Tensor& fetch : *fetches) {
    for (const tf::Tensor& buffer : held) {
      if (!fetch.IsInitialized() || !fetch.SharesBufferWith(buffer)) continue;
      tf::Tensor own(accelerator_->device()->GetAllocator({}), fetch.dtype(),
                     fetch.shape());
      if (!own.IsInitialized()) {
        return absl::ResourceExhaustedError("there is no memory for a copy of a fetch");
      }
      TF_RETURN_IF_ERROR(accelerator_->Copy(fetch, &own));
      fetch = std::move(own);
    }
  }
  return variables_.MoveBack(held);
}

absl::Status TaskRecorder::Record(const Tensors& feeds, const Execute& execute) {
  tf::Allocator* const allocator = accelerator_->device()->GetAllocator({});
  Tensors fixed, made, values;
  for (const tf::Tensor& feed : feeds) {
    fixed.emplace_back(allocator, feed.dtype(), feed.shape());
    if (!fixed.back().IsInitialized()) {
      return absl::ResourceExhaustedError("there is no memory for a copy of the feeds");
    }
    // Ops that inspect values while the task is recorded see this task's.
    TF_RETURN_IF_ERROR(accelerator_->Copy(feed, &fixed.back()));
  }
  TaskVariables::Addresses before, after;
  TF_RETURN_IF_ERROR(variables_.Locate(&before));
  TF_RETURN_IF_ERROR(variables_.Save(&values));
  if (!accelerator_->records_waits()) TF_RETURN_IF_ERROR(EnterAll(/*updated=*/false));
  auto recording = accelerator_->Record([&] { return Enqueue(fixed, execute, &made); });
  TF_RETURN_IF_ERROR(variables_.Locate(&after));
  const std::string moved = variables_.Moved(before, after);
  if (!recording.ok() || !moved.empty()) {
    // Nothing has been computed: a buffer that the task has assigned to a variable
    // holds no value.
    TF_RETURN_IF_ERROR(variables_.Restore(before, values));
    TF_RETURN_IF_ERROR(recording.status());
    variables_.AddMoved(before, after, &moving_);
    return absl::AbortedError(MovesItself(moved));
  }
  recording_ = *std::move(recording);
  addresses_ = std::move(before);
  feeds_ = std::move(fixed);
  fetches_ = std::move(made);
  return absl::OkStatus();
}

absl::Status TaskRecorder::EnterAll(bool updated) {
  const UpdateAccess access(accelerator_->synchroniser(), accelerator_->learner());
  const TrainedSet* const set = access.set();
  for (int member = 0; set != nullptr && member < set->size(); ++member) {
    if (!set->corrects_itself(member)) continue;
    if (!access.EnterAll(member)) return Discarded();
    if (updated) access.Updated(member);
  }
  return absl::OkStatus();
}

absl::Status TaskRecorder::Replay(const Tensors& feeds) {
  const UpdateAccess access(accelerator_->synchroniser(), accelerator_->learner());
  if (!accelerator_->records_waits()) {
    TF_RETURN_IF_ERROR(EnterAll(/*updated=*/true));
  } else if (access.set() != nullptr && !access.EnterRecorded()) {
    return Discarded();
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    TF_RETURN_IF_ERROR(accelerator_->Copy(feeds[i], &feeds_[i]));
  }
  return accelerator_->Replay(recording_.get());
}

}  // namespace tensorbow
