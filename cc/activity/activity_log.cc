#include "cc/activity/activity_log.h"

#include <algorithm>
#include <utility>

namespace tensorbow {

namespace {

constexpr double kNanos = 1e-9;

template <typename Get>
Quantiles QuantilesOf(size_t count, Get get) {
  if (count == 0) return {};
  std::vector<int64_t> nanos(count);
  for (size_t i = 0; i < count; ++i) nanos[i] = get(i);
  std::sort(nanos.begin(), nanos.end());
  const size_t middle = count / 2;
  const double median =
      count % 2 == 1 ? nanos[middle] : (nanos[middle - 1] + nanos[middle]) / 2.0;
  // The least value that 95 % of all do not exceed.
  const size_t p95 = (count * 95 + 99) / 100 - 1;
  return {median * kNanos, nanos[p95] * kNanos};
}

std::string NameOf(const LearnerActivity::Event& event,
                   const std::function<std::string(int64_t)>& variable_name) {
  const auto of_variable = [&](const std::string& what) {
    return event.detail < 0 ? what : what + " " + variable_name(event.detail);
  };
  switch (event.activity) {
    case Activity::kFeed:
      return "feed";
    case Activity::kTask:
      return "task " + std::to_string(event.detail);
    case Activity::kUpdate:
      return of_variable("update");
    case Activity::kAverage:
      return of_variable("average");
    case Activity::kCorrect:
      return of_variable("correct");
    case Activity::kWait:
      return "wait";
  }
  return "";
}

}  // namespace

void ActivityLog::SetLearners(int count) {
  learners_ = std::vector<LearnerActivity>(count);
  MutexLock lock(&mu_);
  runs_.clear();
  numbers_.clear();
  past_ = std::vector<Past>(count);
}

void ActivityLog::BeginRun(int64_t now) {
  {
    MutexLock lock(&mu_);
    recording_ = trace_ != nullptr;
  }
  for (LearnerActivity& learner : learners_) learner.Clear(recording_);
  begin_ = now;
}

void ActivityLog::EndRun(int64_t now, const std::string& name, int64_t samples,
                         const std::function<std::string(int64_t)>& variable_name) {
  Run run = {begin_, now, samples, 0, 0};
  MutexLock lock(&mu_);
  if (trace_ != nullptr && recording_) {
    trace_->Add(0, trace_->Number(name), run.begin, run.end);
  }
  for (size_t j = 0; j < learners_.size(); ++j) {
    LearnerActivity& learner = learners_[j];
    learner.EndRun(now);
    for (const LearnerActivity::Task& task : learner.tasks()) {
      ++past_[j].tasks;
      past_[j].last.push_back({task.end - task.begin - task.waited, task.waited});
      run.learner_nanos += task.end - task.begin;
    }
    while (past_[j].last.size() > kWindow) past_[j].last.pop_front();
    for (Activity activity :
         {Activity::kAverage, Activity::kCorrect, Activity::kWait}) {
      run.synchronisation_nanos += learner.nanos(activity);
    }
    for (const LearnerActivity::Event& event : learner.events()) {
      if (trace_ == nullptr) break;
      trace_->Add(static_cast<int>(j) + 1, NumberOf(event, variable_name), event.begin,
                  event.end);
    }
  }
  runs_.push_back(run);
  if (runs_.size() > kWindow) runs_.pop_front();
}

int ActivityLog::NumberOf(const LearnerActivity::Event& event,
                          const std::function<std::string(int64_t)>& variable_name) {
  const auto [known, is_new] = numbers_.try_emplace({event.activity, event.detail}, -1);
  if (is_new) known->second = trace_->Number(NameOf(event, variable_name));
  return known->second;
}

void ActivityLog::Mark(const std::string& name, int64_t begin, int64_t end) {
  MutexLock lock(&mu_);
  if (trace_ != nullptr) trace_->Add(0, trace_->Number(name), begin, end);
}

ActivityLog::Figures ActivityLog::figures() const {
  MutexLock lock(&mu_);
  Figures figures;
  figures.runs = static_cast<int>(runs_.size());
  int64_t learner_nanos = 0, synchronisation_nanos = 0;
  for (const Run& run : runs_) {
    figures.samples += run.samples;
    figures.in_runs += (run.end - run.begin) * kNanos;
    learner_nanos += run.learner_nanos;
    synchronisation_nanos += run.synchronisation_nanos;
  }
  if (!runs_.empty()) {
    figures.seconds = (runs_.back().end - runs_.front().begin) * kNanos;
  }
  if (learner_nanos > 0) {
    figures.synchronisation =
        static_cast<double>(synchronisation_nanos) / learner_nanos;
  }
  for (const Past& past : past_) {
    LearnerFigures& learner = figures.learners.emplace_back();
    learner.tasks = past.tasks;
    const size_t count = past.last.size();
    learner.task = QuantilesOf(count, [&](size_t i) { return past.last[i].computed; });
    learner.wait = QuantilesOf(count, [&](size_t i) { return past.last[i].waited; });
  }
  return figures;
}

bool ActivityLog::StartTrace(int64_t now) {
  MutexLock lock(&mu_);
  if (trace_ != nullptr) return false;
  trace_ = std::make_unique<Trace>(now);
  numbers_.clear();
  return true;
}

std::unique_ptr<Trace> ActivityLog::StopTrace() {
  MutexLock lock(&mu_);
  return std::move(trace_);
}

}  // namespace tensorbow
