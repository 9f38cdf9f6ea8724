#include "cc/scheduler/row_cutter.h"

#include <algorithm>
#include <utility>

namespace tensorbow {

int RowCutter::Begin(int64_t begin, int64_t end, std::vector<int64_t> sizes,
                     SchedulingPolicy policy, int turn) {
  MutexLock lock(&mu_);
  next_row_ = begin;
  end_ = end;
  sizes_ = std::move(sizes);
  policy_ = policy;
  const int num_learners = static_cast<int>(sizes_.size());
  turns_.assign(num_learners, {});
  if (policy_ == SchedulingPolicy::kFirstComeFirstServed) return turn;
  for (; next_row_ < end_; turn = (turn + 1) % num_learners) {
    turns_[turn].push_back(Cut(turn));
  }
  for (std::vector<Batch>& batches : turns_) {
    std::reverse(batches.begin(), batches.end());
  }
  return turn;
}

RowCutter::Batch RowCutter::Cut(int learner) {
  const int64_t begin = next_row_;
  next_row_ = std::min(end_, begin + sizes_[learner]);
  return {next_number_++, begin, next_row_};
}

std::optional<RowCutter::Batch> RowCutter::Next(int learner) {
  MutexLock lock(&mu_);
  if (policy_ == SchedulingPolicy::kFirstComeFirstServed) {
    if (next_row_ == end_) return std::nullopt;
    return Cut(learner);
  }
  std::vector<Batch>& batches = turns_[learner];
  if (batches.empty()) return std::nullopt;
  const Batch batch = batches.back();
  batches.pop_back();
  return batch;
}

}  // namespace tensorbow
