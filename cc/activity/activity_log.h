// What the learners of a session have done: figures of the last runs, and on demand a
// trace of every run. Knows no TensorFlow.
//
// BeginRun() and EndRun() are called in turn, SetLearners() between runs; all other
// functions at any time by any thread.
#ifndef TENSORBOW_CC_ACTIVITY_ACTIVITY_LOG_H_
#define TENSORBOW_CC_ACTIVITY_ACTIVITY_LOG_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/activity/learner_activity.h"
#include "cc/activity/trace.h"
#include "cc/support/mutex.h"

namespace tensorbow {

// A median and what 95 % do not exceed, in seconds.
struct Quantiles {
  double median = 0;
  double p95 = 0;
};

class ActivityLog {
 public:
  // The figures are those of so many runs, the last ones.
  static constexpr int kWindow = 256;

  struct LearnerFigures {
    int64_t tasks = 0;  // since the number of learners changed last
    Quantiles task;     // computing
    Quantiles wait;     // for other learners, by task
  };
  struct Figures {
    int runs = 0;
    int64_t samples = 0;  // of these runs
    double seconds = 0;   // from the begin of the first to the end of the last
    double in_runs = 0;   // of these seconds
    // Of the time that learners spent in the runs: waiting for each other, averaging
    // and correcting, as far as update ops do not.
    double synchronisation = 0;
    std::vector<LearnerFigures> learners;
  };

  // The learners are others.
  void SetLearners(int count) TENSORBOW_EXCLUDES(mu_);
  // That of a learner, for the run under way.
  LearnerActivity* learner(int learner) { return &learners_[learner]; }

  // `now`: NowNanos().
  void BeginRun(int64_t now) TENSORBOW_EXCLUDES(mu_);
  // `name`: of the run. `samples`: rows that it has trained. `variable_name`: gives the
  // name of a variable that activities have the number of, always the same until
  // SetLearners().
  void EndRun(int64_t now, const std::string& name, int64_t samples,
              const std::function<std::string(int64_t)>& variable_name)
      TENSORBOW_EXCLUDES(mu_);
  // Whether the run under way is traced.
  bool recording() const { return recording_; }

  // Something happened beside the learners, from `begin` to `end`.
  void Mark(const std::string& name, int64_t begin, int64_t end)
      TENSORBOW_EXCLUDES(mu_);

  Figures figures() const TENSORBOW_EXCLUDES(mu_);

  // From the next run on. False if a trace has been started and not stopped.
  bool StartTrace(int64_t now) TENSORBOW_EXCLUDES(mu_);
  // What has been traced; nothing if no trace was started.
  std::unique_ptr<Trace> StopTrace() TENSORBOW_EXCLUDES(mu_);

 private:
  struct Run {
    int64_t begin;
    int64_t end;
    int64_t samples;
    int64_t learner_nanos;  // of all learners together
    int64_t synchronisation_nanos;
  };
  struct PastTask {
    int64_t computed;
    int64_t waited;
  };
  struct Past {
    int64_t tasks = 0;
    std::deque<PastTask> last;
  };

  // The number of an event's name in the trace.
  int NumberOf(const LearnerActivity::Event& event,
               const std::function<std::string(int64_t)>& variable_name)
      TENSORBOW_REQUIRES(mu_);

  // By the thread that begins and ends runs; during one, each by its learner.
  std::vector<LearnerActivity> learners_;
  bool recording_ = false;
  int64_t begin_ = 0;

  mutable Mutex mu_;
  std::deque<Run> runs_ TENSORBOW_GUARDED_BY(mu_);
  std::vector<Past> past_ TENSORBOW_GUARDED_BY(mu_);
  std::unique_ptr<Trace> trace_ TENSORBOW_GUARDED_BY(mu_);  // null: none is kept
  // The numbers of names, by activity and detail.
  std::map<std::pair<Activity, int64_t>, int> numbers_ TENSORBOW_GUARDED_BY(mu_);
};

// Marks what happens while this lives.
class ScopedMark {
 public:
  ScopedMark(ActivityLog* log, std::string name)
      : log_(log), name_(std::move(name)), begin_(NowNanos()) {}
  ~ScopedMark() { log_->Mark(name_, begin_, NowNanos()); }
  ScopedMark(const ScopedMark&) = delete;
  ScopedMark& operator=(const ScopedMark&) = delete;

 private:
  ActivityLog* const log_;
  const std::string name_;
  const int64_t begin_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ACTIVITY_ACTIVITY_LOG_H_
