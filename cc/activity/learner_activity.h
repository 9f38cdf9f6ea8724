// The activities of one learner and their times. Written by the thread that executes
// the learner's graph, read between runs. Knows no TensorFlow.
#ifndef TENSORBOW_CC_ACTIVITY_LEARNER_ACTIVITY_H_
#define TENSORBOW_CC_ACTIVITY_LEARNER_ACTIVITY_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace tensorbow {

enum class Activity {
  kFeed,     // cutting a task's rows from the feeds
  kTask,     // a whole learning task, with the activities inside of it
  kUpdate,   // an update op that also corrects or shares gradients, by variable
  kAverage,  // means of replicas or gradients, by variable, for all learners
  kCorrect,  // corrections beside update ops, by variable
  kWait,     // for other learners
};
inline constexpr int kNumActivities = 6;

// Returns the time of a monotonic clock in nanoseconds.
inline int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class alignas(64) LearnerActivity {
 public:
  struct Event {
    Activity activity;
    int64_t begin;   // as NowNanos() gives it
    int64_t end;     // as NowNanos() gives it
    int64_t detail;  // the iteration of the run, or the variable; -1 where unknown
  };
  struct Task {
    int64_t begin;
    int64_t end;
    int64_t waited;  // nanoseconds of the task spent waiting
  };

  void Note(Activity activity, int64_t begin, int64_t end, int64_t detail = -1) {
    nanos_[static_cast<int>(activity)] += end - begin;
    if (recording_) events_.push_back({activity, begin, end, detail});
  }
  // Starts the learner's task of an iteration.
  void BeginTask(int64_t now) {
    task_begin_ = now;
    waited_before_ = nanos(Activity::kWait);
  }
  void EndTask(int64_t now, int64_t iteration) {
    Note(Activity::kTask, task_begin_, now, iteration);
    tasks_.push_back({task_begin_, now, nanos(Activity::kWait) - waited_before_});
  }
  // Ends the run: the learner has waited since its last task.
  void EndRun(int64_t now) {
    if (tasks_.empty()) return;
    Task& last = tasks_.back();
    Note(Activity::kWait, last.end, now);
    last.waited += now - last.end;
    last.end = now;
  }

  // Returns whether single events are kept, too.
  bool recording() const { return recording_; }
  int64_t nanos(Activity activity) const { return nanos_[static_cast<int>(activity)]; }
  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<Event>& events() const { return events_; }

  // Forgets all activities.
  void Clear(bool recording) {
    recording_ = recording;
    nanos_ = {};
    tasks_.clear();
    events_.clear();
  }

 private:
  bool recording_ = false;
  std::array<int64_t, kNumActivities> nanos_ = {};
  int64_t task_begin_ = 0;
  int64_t waited_before_ = 0;
  std::vector<Task> tasks_;
  std::vector<Event> events_;
};

// Records an activity for the time of its own life; nothing if the learner is null.
class ScopedActivity {
 public:
  ScopedActivity(LearnerActivity* learner, Activity activity, int64_t detail = -1)
      : learner_(learner),
        activity_(activity),
        detail_(detail),
        begin_(learner == nullptr ? 0 : NowNanos()) {}
  ~ScopedActivity() {
    if (learner_ != nullptr) learner_->Note(activity_, begin_, NowNanos(), detail_);
  }
  ScopedActivity(const ScopedActivity&) = delete;
  ScopedActivity& operator=(const ScopedActivity&) = delete;

 private:
  LearnerActivity* const learner_;
  const Activity activity_;
  const int64_t detail_;
  const int64_t begin_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ACTIVITY_LEARNER_ACTIVITY_H_
