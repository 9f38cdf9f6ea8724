// The state that the faces of a synchroniser share, and the order of iterations
// (synchroniser.h). For the files of this folder only.
#ifndef TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_CORE_H_
#define TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_CORE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/activity/learner_activity.h"
#include "cc/central_model/central_model.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/support/gate.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/device_queue.h"
#include "cc/synchroniser/hosts/host_rounds.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

struct SynchroniserCore {
  // Owned by the learner's thread, but for the last two fields.
  struct alignas(64) Learner {
    int64_t iteration = 0;            // of the run
    std::vector<uint8_t> updated;     // by member, in this task
    std::vector<uint8_t> remembered;  // by member, in this task
    double share = 1;
    double rate = 1;
    int64_t rows = 0;
    LearnerActivity* activity = nullptr;
    // The last iteration it took part in, and its rows then (`rows` may already be
    // those of its next task). Written when the iteration before is complete, and
    // before the arrival that readers have acquired.
    int64_t took_part = -1;
    int64_t finished_rows = 0;
  };
  // Twice the number (over all runs) of the last iteration prepared, plus one while the
  // next is being prepared. The release store in UpdateAccess::Enter() pairs with the
  // acquire loads there.
  struct alignas(64) SliceState {
    std::atomic<int64_t> prepared{0};
  };
  struct alignas(64) Point {
    // The learners' contributions; null before they have reached the point. Written
    // before the arrival that readers have acquired.
    std::vector<const void*> brought;
    std::atomic<int> arrived{0};  // learners that have reached or will not reach it
    std::atomic<int> staying{0};  // learners that have reached it and not released
  };

  SynchroniserCore(int num_learners, CentralModel* central,
                   std::chrono::microseconds spin, std::unique_ptr<Algorithm> algorithm,
                   DeviceQueue* queue, HostRounds* rounds);

  // --- Called by any learner.

  // Returns whether the iteration that the learner is in, or would enter, is aborted.
  bool Aborted(int learner) const {
    return learners[learner].iteration >= first_aborted.load(std::memory_order_acquire);
  }
  void Abort(int learner);
  // Waits until the iteration before the learner's is complete. Returns false if the
  // learner's own was aborted.
  bool AwaitTurn(int learner);
  std::string error() const { return queue == nullptr ? "" : queue->error(); }
  int num_participants(int learner) const {
    return scheduler->participants(learners[learner].iteration);
  }
  // Returns whether an iteration of the run, or the learner's, corrects.
  bool Due(int64_t iteration) const { return IsDueIn(*set, iteration); }
  bool IsDueIn(const TrainedSet& trained_set, int64_t iteration) const {
    return traits.averages_models() &&
           (trained_set.iterations() + iteration + 1) % traits.period == 0;
  }
  bool IsDue(int learner) const { return Due(learners[learner].iteration); }
  CentralModel::Variable& variable(int member) const {
    return central->variable(set->variable(member));
  }

  // --- Called between runs, or by the last learner of an iteration.

  void Complete(int64_t iteration);
  void ClearPoints();
  std::vector<int> participants(int variable) const;
  void SetParticipants(int variable, std::vector<int> participants);
  void ResetNonParticipants(const TrainedSet& trained_set, int active);
  // Sets z of the whole set to its value from before the iteration under way.
  void CollectAll(const TrainedSet& trained_set);

  // --- The part of the host protocol (other_hosts.cc).

  // Waits until all hosts count the iteration before the learner's. Aborts the run and
  // returns false if they do not.
  bool AwaitHosts(int learner);
  // Waits for the last report, so that replicas do not change any more.
  void SettleHosts() {
    if (rounds != nullptr) rounds->Await();
  }
  HostRounds::Result JoinAs(const TrainedSet& trained_set, bool due,
                            const HostRounds::Report& report);
  // Votes on an iteration that averages gradients; waits for the other hosts' votes.
  HostRounds::Result VoteOn(const TrainedSet& trained_set,
                            const HostRounds::Report& report);
  // Reports an iteration to the other hosts. `due`: it corrects.
  void Report(const TrainedSet& trained_set, bool due, HostRounds::Kind kind,
              const std::vector<int>& participants);
  // Returns a function that waits for all that elastic hosts send of the set in an
  // iteration; null for other hosts.
  std::function<bool()> ArrivalOf(const TrainedSet& trained_set);

  const int num_learners;
  CentralModel* const central;  // not owned
  const std::unique_ptr<Algorithm> algorithm;
  DeviceQueue* const queue;  // not owned, or null
  HostRounds* const rounds;  // not owned, or null
  const Traits traits;
  Gate gate;
  std::vector<Learner> learners;
  std::vector<std::unique_ptr<SliceState[]>> slices;       // by variable of the model
  std::vector<std::vector<int>> participants_by_variable;  // of the model
  std::unique_ptr<Point[]> points;
  int num_points = 0;
  int64_t first_iteration = 1;  // the number of the run's first one, over all runs

  TrainedSet* set = nullptr;                 // of the current run, not owned
  const TaskScheduler* scheduler = nullptr;  // of the current run, not owned
  std::atomic<int> arrived{0};               // in the iteration under way
  // The completed iterations of the run. The release store in LearnerPace::Finish()
  // pairs with the acquire load in AwaitTurn().
  std::atomic<int64_t> completed{0};
  // The participants of an iteration that all hosts have voted for, until it is
  // completed here.
  std::vector<int> voted;
  bool nobody_took_part = false;  // in the last iteration: the data had ended
  // The first iteration of the run that a learner aborted.
  std::atomic<int64_t> first_aborted{0};
  std::atomic<bool> stopped_by_hosts{false};
  bool without_hosts = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_CORE_H_
