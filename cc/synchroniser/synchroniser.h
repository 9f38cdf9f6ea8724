// Paces the learners through the iterations of a run: who takes part, who waits for
// whom, when an iteration is complete or discarded. What an iteration computes is the
// algorithm's (algorithm.h). In one run:
//
//   trainer                     each learner that has tasks, on its own thread
//   -------                     ----------------------------------------------
//   BeginRun(set, scheduler)
//                               per task: BeforeTask(j); <execute>; AfterTask(j)
//   EndRun()
//
// A member of the set whose update op corrects by itself (a fused op) does so while the
// task executes:
//
//                               per slice s: Enter(j, m, s); <update>
//                               Updated(j, m)
//
// All other members are corrected by BeforeTask() and AfterTask() together.
//
// Enter() waits until the iteration before is complete, that is, until every learner
// has finished its task of it. So a learner may work on its next task while others
// still work on theirs, but nobody is ever more than one iteration ahead. (Where an
// update op does not correct by itself, BeforeTask() waits in its stead.) The first
// learner that enters a slice has the algorithm prepare it, for all learners, before
// anybody changes the slice. So the outcome does not depend on who was fast, and the
// learner that is behind has the least to do.
//
// When a learner aborts, the iteration it was in leaves no trace in the central model,
// and no later one begins; iterations before it are completed by the others. A learner
// that had no task in the last iteration begins its next one from z.
//
// Where learners enqueue tasks on streams (GPUs), "finished" means enqueued, and a
// DeviceQueue orders what is enqueued.
//
// On several hosts an iteration is complete when it is on all of them: no learner
// enters a slice before all hosts have reported on the iteration before
// (host_rounds.h).
//
// Everything that takes a learner may be called concurrently by different learners, the
// rest only between runs. Does not own the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
#define TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_

#include <algorithm>
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

class Synchroniser {
 public:
  // `spin`: see Gate. `queue`: where tasks are enqueued on streams; null where they are
  // executed; not owned, lives as long as `algorithm`. `rounds`: with other hosts, null
  // where there are none; not owned.
  Synchroniser(int num_learners, CentralModel* central, std::chrono::microseconds spin,
               std::unique_ptr<Algorithm> algorithm, DeviceQueue* queue = nullptr,
               HostRounds* rounds = nullptr);

  Synchroniser(const Synchroniser&) = delete;
  Synchroniser& operator=(const Synchroniser&) = delete;

  const Traits& traits() const { return traits_; }
  int num_learners() const { return num_learners_; }
  // What went wrong for good beside the learners' tasks (on a GPU), empty if nothing
  // did. Then all iterations abort.
  std::string error() const { return queue_ == nullptr ? "" : queue_->error(); }

  // --- Between runs.

  // Where the learner notes what it does from now on; null for nowhere. Not owned.
  void set_activity(int learner, LearnerActivity* activity) {
    learners_[learner].activity = activity;
  }
  LearnerActivity* activity(int learner) const { return learners_[learner].activity; }
  // REQUIRES: the set knows where all learners' replicas lie. The run's tasks are
  // executed by the first learners, as many as its first iteration has participants.
  void BeginRun(TrainedSet* set, const TaskScheduler* scheduler);
  // Returns the number of iterations that completed.
  int64_t EndRun();
  // The next run is made without the other hosts, with this one's gradients alone: its
  // fetches are wanted, and its updates will be replaced.
  void Rehearse(bool rehearses) { rehearses_ = rehearses; }
  // After a run: whether it ended because an iteration does not count on all hosts.
  bool stopped_by_hosts() const { return stopped_by_hosts_.load(); }
  // Takes part in one iteration of the other hosts without a task. Counts it, if it
  // does. REQUIRES: they train the same variables, and the last iteration counts or has
  // been forgiven.
  HostRounds::Fate Attend(const TrainedSet& set, HostRounds::Kind kind);
  // All replicas of the set ← z, without momentum. After a run that was aborted, z is
  // what the aborted iteration began with.
  void Restart(const TrainedSet& set);
  // The replicas of the first `active` learners that did not take part in the last
  // iteration that trained a variable of the set ← z.
  void ResetAbsent(const TrainedSet& set, int active);
  // Brings the central model's values of a variable up to date before they are read or
  // written. `replicas`: by learner. Returns what went wrong, or an empty text.
  std::string Collect(int variable, const std::vector<void*>& replicas);

  // The strength of corrections, from now on.
  void SetAlpha(double alpha) { algorithm_->SetAlpha(alpha); }

  // The learners that took part in the last iteration that trained the variable of the
  // model, ascending: z is theirs. All, if there has been none since all replicas were
  // set to the same value, which must be told.
  std::vector<int> present(int variable) const;
  void SetPresent(int variable, std::vector<int> learners);
  void SetAllPresent(int variable);

  // --- Tasks. The first three return false if the learner's iteration was aborted.

  bool BeforeTask(int learner);
  bool AfterTask(int learner);
  // Instead of AfterTask() when the learner's task found no data: it contributes
  // nothing to the iteration.
  bool SitOut(int learner);
  // Instead of AfterTask() when the task failed.
  void Abort(int learner);
  // The weight of the learner's task in averages of gradients, relative to an equal
  // one; set before the task is executed, 1 when a run begins.
  void SetShare(int learner, double share) { learners_[learner].share = share; }
  double share(int learner) const { return learners_[learner].share; }
  // What the learner's learning rate is multiplied by; likewise.
  void SetRate(int learner, double rate) { learners_[learner].rate = rate; }
  double rate(int learner) const { return learners_[learner].rate; }
  // The rows of the learner's task, before AfterTask(); better before it is executed.
  void NoteRows(int learner, int64_t rows) { learners_[learner].rows = rows; }
  // Whether the iteration that `learner` is in, or would enter, has been aborted.
  bool Aborted(int learner) const;

  // --- Within a task, for update ops that correct by themselves.

  // From now on the learner may change its part of the slice. False if the iteration
  // was aborted; then the op must not go on.
  bool Enter(int learner, int member, int slice);
  // How many learners have a task in the learner's iteration.
  int participants(int learner) const {
    return scheduler_->participants(learners_[learner].iteration);
  }
  // Enters all slices: nobody else reads this learner's weights until the next
  // iteration.
  bool EnterAll(int learner, int member);
  // Instead of executing update ops, when the learner's task is a replay of what they
  // once enqueued: enters all members that correct themselves and takes them for
  // updated. False as above; then the replay must not be enqueued.
  bool EnterReplay(int learner);
  // Every slice of the member has been entered and corrected in this task.
  void Updated(int learner, int member);
  bool updated(int learner, int member) const {
    return learners_[learner].updated[member];
  }

  // What the op works on: the current run's set, the member's variable, and after
  // Enter() the variable's z to correct towards (null if this iteration does not
  // correct).
  TrainedSet* set() const { return set_; }
  CentralModel::Variable& variable(int member) const {
    return central_->variable(set_->variable(member));
  }
  template <typename A>
  const A* Target(int learner, int member) const {
    return IsDue(learner) ? variable(member).template z<A>() : nullptr;
  }
  // How strongly: α of a correction α (w − z).
  double Alpha(int member) const { return algorithm_->Alpha(set_->variable(member)); }
  // The same target where z is kept on the learner's device.
  const void* DeviceTarget(int learner, int member) const {
    return IsDue(learner) ? queue_->Target(learner, set_->variable(member)) : nullptr;
  }

  // The order in which `learner` goes through the slices of a variable: its i-th one.
  // Learners that keep pace are close to each other, where one finds in the caches what
  // the other has left there, and are first in equal shares.
  int SliceAt(int learner, int i, int num_slices) const {
    const int group = i / num_learners_ * num_learners_;
    const int size = std::min(num_learners_, num_slices - group);
    return group + (i - group + learner) % size;
  }

  // --- Within a task, where learners exchange values: at points that all learners of
  // an iteration come to in the same order.

  // Waits until every learner of the iteration has come to the point or finished its
  // task without. Returns what they have brought, in learner order, for use until
  // Release(); nothing if the iteration was aborted, which it cannot be from then on.
  std::vector<const void*> AllGather(int learner, int point, const void* brought);
  // Waits until all who have gathered need what `learner` has brought no more.
  void Release(int learner, int point);

  // Called by one learner, for all, when everybody has sent what hosts average
  // (TrainedSet::host_gradients) and before anything is updated: waits for the other
  // hosts. If the iteration does not go on there, it is aborted here. `point`: where
  // all have come together.
  void Vote(int learner, int point);

 private:
  // Owned by the learner's thread, but for what Finish() leaves.
  struct alignas(64) LearnerState {
    int64_t iteration = 0;            // of the run
    std::vector<uint8_t> updated;     // by member, in this task
    std::vector<uint8_t> remembered;  // by member, in this task
    double share = 1;
    double rate = 1;
    int64_t rows = 0;
    LearnerActivity* activity = nullptr;
    // Written in Finish() when the iteration before is complete, and before the arrival
    // that readers have acquired: the last iteration it took part in, and its rows then
    // (`rows` may already be those of its next task).
    int64_t took_part = -1;
    int64_t finished_rows = 0;
  };
  // Of a slice: twice the number (over all runs) of the last iteration that has been
  // prepared, and one more while the next is being prepared. The release store in
  // Enter() pairs with the acquire loads there.
  struct alignas(64) SliceState {
    std::atomic<int64_t> prepared{0};
  };
  struct alignas(64) Point {
    // By learner, null if it has not come. Written before the arrival that readers have
    // acquired.
    std::vector<const void*> brought;
    std::atomic<int> arrived{0};  // learners that have come, or left without
    std::atomic<int> staying{0};  // learners that have come and not released
  };

  // Whether the iteration of the run, or the learner's, corrects.
  bool Due(int64_t iteration) const { return IsDueIn(*set_, iteration); }
  bool IsDueIn(const TrainedSet& set, int64_t iteration) const {
    return traits_.averages_models() &&
           (set.iterations() + iteration + 1) % traits_.period == 0;
  }
  bool IsDue(int learner) const { return Due(learners_[learner].iteration); }
  // Waits until the iteration before the learner's is complete. False if the learner's
  // own was aborted.
  bool AwaitTurn(int learner);
  bool AwaitHosts(int learner);
  // Whether the replicas are what they have been told to be: nothing is under way.
  void SettleHosts() {
    if (rounds_ != nullptr) rounds_->Await();
  }
  // z of the whole set ← what the iteration under way began with.
  void CollectAll(const TrainedSet& set);
  HostRounds::Fate AttendAs(const TrainedSet& set, bool due,
                            const HostRounds::Report& report);
  // The other hosts' part of an iteration that averages gradients.
  HostRounds::Fate VoteOn(const TrainedSet& set, const HostRounds::Report& report);
  // Tells the other hosts what has become of an iteration. `due`: it corrects.
  void Report(const TrainedSet& set, bool due, HostRounds::Kind kind,
              const std::vector<int>& present);
  // What waits for all that elastic hosts send of the set in an iteration; null else.
  std::function<bool()> ArrivalOf(const TrainedSet& set);
  bool EnterQueue(int learner, bool replays);
  bool Finish(int learner, bool took_part);
  void Complete(int64_t iteration);
  void ClearPoints();

  const int num_learners_;
  CentralModel* const central_;
  const std::unique_ptr<Algorithm> algorithm_;
  DeviceQueue* const queue_;  // not owned, or null
  HostRounds* const rounds_;  // not owned, or null
  const Traits traits_;
  Gate gate_;
  std::vector<LearnerState> learners_;
  std::vector<std::unique_ptr<SliceState[]>> slices_;  // by variable of the model
  std::vector<std::vector<int>> present_;              // by variable of the model
  std::unique_ptr<Point[]> points_;
  int num_points_ = 0;
  int64_t first_iteration_ = 1;  // the number of the run's first one, over all runs

  TrainedSet* set_ = nullptr;                 // of the current run, not owned
  const TaskScheduler* scheduler_ = nullptr;  // of the current run, not owned
  std::atomic<int> arrived_{0};               // in the iteration under way
  // Iterations of the run that are over; the release store in Finish() pairs with the
  // acquire load in AwaitTurn().
  std::atomic<int64_t> completed_{0};
  // Who takes part in an iteration that all hosts have voted for and that has not been
  // completed here.
  std::vector<int> voted_;
  bool nobody_took_part_ = false;  // in the last one: the data had ended
  // The first iteration of the run that a learner aborted.
  std::atomic<int64_t> first_aborted_{0};
  std::atomic<bool> stopped_by_hosts_{false};
  bool rehearses_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
