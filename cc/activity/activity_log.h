// The activity of a session's learners: figures of the last runs and, on demand, a
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

// The median and the 95th percentile, in seconds.
struct Quantiles {
  double median = 0;
  double p95 = 0;
};

class ActivityLog {
 public:
  // The number of recent runs that the figures cover.
  static constexpr int kWindow = 256;

  struct LearnerFigures {
    int64_t tasks = 0;  // since the number of learners last changed
    Quantiles task;     // computing
    Quantiles wait;     // waiting for other learners, by task
  };
  struct Figures {
    int runs = 0;
    int64_t samples = 0;  // rows of these runs
    double seconds = 0;   // from the start of the first run to the end of the last
    double in_runs = 0;   // the part of these seconds inside runs
    // The share of the learners' time spent waiting for each other, averaging, and
    // correcting outside of update ops.
    double synchronisation = 0;
    std::vector<LearnerFigures> learners;
  };

  // Starts again with `count` new learners.
  void SetLearners(int count) TENSORBOW_EXCLUDES(mu_);
  // Returns the record of a learner for the current run.
  LearnerActivity* learner(int learner) { return &learners_[learner]; }

  // Starts a run at `now`, as NowNanos() gives it.
  void BeginRun(int64_t now) TENSORBOW_EXCLUDES(mu_);
  // Ends the run `name`, which has trained `samples` rows. `variable_name` returns the
  // name of a variable by the number that activities have; the name of a number must
  // not change before SetLearners().
  void EndRun(int64_t now, const std::string& name, int64_t samples,
              const std::function<std::string(int64_t)>& variable_name)
      TENSORBOW_EXCLUDES(mu_);
  // Returns whether the current run is traced.
  bool recording() const { return recording_; }

  // Records an event of the session itself, from `begin` to `end`.
  void Mark(const std::string& name, int64_t begin, int64_t end)
      TENSORBOW_EXCLUDES(mu_);

  Figures figures() const TENSORBOW_EXCLUDES(mu_);

  // Traces all runs from the next one on. Returns false if a trace is already running.
  bool StartTrace(int64_t now) TENSORBOW_EXCLUDES(mu_);
  // Ends the trace and returns it; null if none was started.
  std::unique_ptr<Trace> StopTrace() TENSORBOW_EXCLUDES(mu_);

 private:
  struct Run {
    int64_t begin;
    int64_t end;
    int64_t samples;
    int64_t learner_nanos;  // all learners' time together
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

  // Returns the number of an event's name in the trace.
  int NumberOf(const LearnerActivity::Event& event,
               const std::function<std::string(int64_t)>& variable_name)
      TENSORBOW_REQUIRES(mu_);

  // Written by the thread that begins and ends runs; during a run, each by its learner.
  std::vector<LearnerActivity> learners_;
  bool recording_ = false;
  int64_t begin_ = 0;

  mutable Mutex mu_;
  std::deque<Run> runs_ TENSORBOW_GUARDED_BY(mu_);
  std::vector<Past> past_ TENSORBOW_GUARDED_BY(mu_);
  std::unique_ptr<Trace> trace_ TENSORBOW_GUARDED_BY(mu_);  // null: no trace
  // The numbers of names, by activity and detail.
  std::map<std::pair<Activity, int64_t>, int> numbers_ TENSORBOW_GUARDED_BY(mu_);
};

// Marks the time of its own life in a log.
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
