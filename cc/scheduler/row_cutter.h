// Cuts the rows of a run into batches as learners ask for them: each takes as many as
// its batch has, or the rest.
//
// First come, first served: the next rows go to the learner that asks. Round robin: the
// learners take turns, in whatever order they ask, so that a seeded run computes the
// same bits every time. Pass the turn of one Begin() to the next. Otherwise the first
// learners make more updates in the long run.
//
// Next() may be called by every learner concurrently, Begin() only when no learner is
// inside Next().
#ifndef TENSORBOW_CC_SCHEDULER_ROW_CUTTER_H_
#define TENSORBOW_CC_SCHEDULER_ROW_CUTTER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/scheduler/task_scheduler.h"
#include "cc/support/mutex.h"

namespace tensorbow {

class RowCutter {
 public:
  struct Batch {
    int64_t number;  // in row order, counted over all Begin()
    int64_t begin;   // rows [begin, end)
    int64_t end;
  };

  // Hands out rows [begin, end) to learners whose batches have `sizes` rows, each at
  // least one. `turn`: the learner that takes the first turn. Returns the turn after
  // these rows.
  int Begin(int64_t begin, int64_t end, std::vector<int64_t> sizes,
            SchedulingPolicy policy, int turn) TENSORBOW_EXCLUDES(mu_);

  // Returns the next batch of `learner`, or nullopt when there are no rows for it.
  std::optional<Batch> Next(int learner) TENSORBOW_EXCLUDES(mu_);

 private:
  // Written in Begin() only.
  std::vector<int64_t> sizes_;
  int64_t end_ = 0;
  SchedulingPolicy policy_ = SchedulingPolicy::kFirstComeFirstServed;

  Batch Cut(int learner) TENSORBOW_REQUIRES(mu_);

  Mutex mu_;
  int64_t next_row_ TENSORBOW_GUARDED_BY(mu_) = 0;
  int64_t next_number_ TENSORBOW_GUARDED_BY(mu_) = 0;
  // Batches cut before their learner asked for them, by learner, the next one last.
  std::vector<std::vector<Batch>> turns_ TENSORBOW_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SCHEDULER_ROW_CUTTER_H_
