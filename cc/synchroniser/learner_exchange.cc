#include "cc/synchroniser/learner_exchange.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cc/synchroniser/hosts/host_gradients.h"
#include "cc/synchroniser/synchroniser.h"
#include "cc/synchroniser/synchroniser_core.h"

namespace tensorbow {

LearnerExchange::LearnerExchange(Synchroniser* synchroniser, int learner)
    : core_(synchroniser == nullptr ? nullptr : synchroniser->core_.get()),
      learner_(learner) {}

TrainedSet* LearnerExchange::set() const {
  return core_ == nullptr ? nullptr : core_->set;
}

bool LearnerExchange::Aborted() const { return core_->Aborted(learner_); }

int LearnerExchange::num_participants() const {
  return core_->num_participants(learner_);
}

bool LearnerExchange::averages_gradients() const {
  return core_->traits.averages_gradients();
}

double LearnerExchange::share() const { return core_->learners[learner_].share; }

LearnerActivity* LearnerExchange::activity() const {
  return core_->learners[learner_].activity;
}

std::vector<const void*> LearnerExchange::AllGather(int point, const void* own) const {
  if (!core_->AwaitTurn(learner_)) return {};
  SynchroniserCore::Point& p = core_->points[point];
  p.brought[learner_] = own;
  p.staying.fetch_add(1, std::memory_order_relaxed);
  p.arrived.fetch_add(1, std::memory_order_acq_rel);
  core_->gate.Notify();
  const int expected = num_participants();
  const auto complete = [&] {
    return p.arrived.load(std::memory_order_acquire) >= expected;
  };
  if (!complete()) {
    const ScopedActivity waiting(activity(), Activity::kWait);
    core_->gate.Await([&] { return complete() || Aborted(); });
  }
  if (!complete()) return {};
  // All have arrived: nobody can abort this iteration any more.
  std::vector<const void*> all;
  std::copy_if(p.brought.begin(), p.brought.end(), std::back_inserter(all),
               [](const void* b) { return b != nullptr; });
  return all;
}

void LearnerExchange::Release(int point) const {
  SynchroniserCore::Point& p = core_->points[point];
  p.staying.fetch_sub(1, std::memory_order_acq_rel);
  core_->gate.Notify();
  const auto released = [&] { return p.staying.load(std::memory_order_acquire) == 0; };
  if (released()) return;
  const ScopedActivity waiting(activity(), Activity::kWait);
  core_->gate.Await(released);
}

void LearnerExchange::Vote(int point) const {
  if (core_->without_hosts) {
    core_->set->host_gradients->Await();
    return;
  }
  const ScopedActivity waiting(activity(), Activity::kWait);
  HostRounds::Report report{HostRounds::Kind::kTrained, core_->set->program};
  std::vector<int> participants;
  for (int j = 0; j < core_->num_learners; ++j) {
    if (core_->points[point].brought[j] == nullptr) continue;
    participants.push_back(j);
    ++report.tasks;
    const int64_t rows = core_->learners[j].rows;
    const bool known = rows != HostRounds::kUnknown && report.rows >= 0;
    report.rows =
        known ? report.rows + std::max<int64_t>(1, rows) : HostRounds::kUnknown;
  }
  if (core_->VoteOn(*core_->set, report) == HostRounds::Result::kCounts) {
    core_->voted = std::move(participants);
    return;
  }
  core_->stopped_by_hosts.store(true);
  core_->Abort(learner_);
}

}  // namespace tensorbow
