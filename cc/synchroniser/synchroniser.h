// Keeps the replicas of a model together.
//
// This class paces the learners through the iterations of a run and has every slice of
// every iteration synchronised exactly once; a subclass is one algorithm. In one run:
//
//   session                     each learner that has tasks, on its own thread
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
// update op does not correct by itself, BeforeTask() waits in its stead.) What an
// iteration does to z depends only on the replicas as they were before it: whoever is
// first to enter a slice prepares that, for all learners, before anybody changes the
// slice. So the outcome does not depend on who was fast, and the learner that is behind
// has the least to do.
//
// When a learner aborts, the iteration it was in leaves no trace in the central model,
// and no later one begins; iterations before it are completed by the others.
//
// On a GPU, a learner executes a task by enqueuing it, and "finished" means enqueued:
// the subclass then orders what is enqueued, and keeps z where the replicas are
// (DeviceTarget in the place of Target, and EnterAll in the place of Enter).
//
// Everything that takes a learner may be called concurrently by different learners, the
// rest only between runs. Does not own the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
#define TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/support/gate.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class Synchroniser {
 public:
  // `spin`: see Gate.
  Synchroniser(int num_learners, CentralModel* central, std::chrono::microseconds spin);
  virtual ~Synchroniser() = default;

  Synchroniser(const Synchroniser&) = delete;
  Synchroniser& operator=(const Synchroniser&) = delete;

  // Whether replicas are corrected towards their average, the central model.
  virtual bool averages() const = 0;
  // Whether the central model has z (else learner 0's replica stands for it).
  virtual bool keeps_z() const { return averages(); }
  // Whether z is what all replicas are. The model has only its average up to date then.
  virtual bool follows_replicas() const { return false; }
  // Whether the learners train one model together.
  virtual bool synchronises() const { return averages(); }
  virtual double alpha() const { return 0; }

  // What went wrong for good beside the learners' tasks (on a GPU), empty if nothing
  // did. Then all iterations abort.
  virtual std::string error() const { return ""; }

  // REQUIRES: the set knows where all learners' replicas lie.
  void BeginRun(TrainedSet* set, const TaskScheduler* scheduler);
  // Returns the number of iterations that completed.
  int64_t EndRun();

  // All three return false if the learner's iteration was aborted.
  bool BeforeTask(int learner);
  bool AfterTask(int learner);
  // Instead of AfterTask() when the learner's task found no data: it contributes
  // nothing to the iteration.
  bool SitOut(int learner);
  // Instead of AfterTask() when the task failed.
  void Abort(int learner);
  // Whether the iteration that `learner` is in, or would enter, has been aborted.
  bool Aborted(int learner) const;

  // For update ops that correct by themselves: from now on the learner may change its
  // part of the slice. False if the iteration was aborted; then the op must not go on.
  bool Enter(int learner, int member, int slice);
  // Enters all slices: nobody else reads this learner's weights until the next
  // iteration.
  virtual bool EnterAll(int learner, int member);
  // Instead of executing update ops, when the learner's task is a replay of what they
  // once enqueued, with the waits that EnterAll() enqueued: enters all members that
  // correct themselves and takes them for updated. False as above; then the replay must
  // not be enqueued.
  virtual bool EnterReplay(int learner);
  // Every slice of the member has been entered and corrected in this task.
  void Updated(int learner, int member);
  bool updated(int learner, int member) const {
    return learners_[learner].updated[member];
  }

  // What the op works on: the current run's set, the member's variable, and after
  // Enter() the variable's z to correct towards (null if this iteration is not
  // synchronised).
  TrainedSet* set() const { return set_; }
  const CentralModel::Variable& variable(int member) const {
    return central_->variable(set_->variable(member));
  }
  template <typename A>
  const A* Target(int learner, int member) const {
    return IsDue(learner) ? variable(member).template current<A>() : nullptr;
  }
  // The same where z is kept on the learner's device, in the accumulation type; what is
  // there belongs to the learner's iteration for what its stream executes after
  // EnterAll(). The same address in all synchronised iterations.
  virtual const void* DeviceTarget(int learner, int member) const { return nullptr; }

  // The order in which `learner` goes through the slices of a variable: its i-th one.
  // Learners that keep pace are close to each other, where one finds in the caches what
  // the other has left there, and are first in equal shares.
  int SliceAt(int learner, int i, int num_slices) const {
    const int group = i / num_learners_ * num_learners_;
    const int size = std::min(num_learners_, num_slices - group);
    return group + (i - group + learner) % size;
  }

  // Whether the learner's iteration ends with a synchronisation, so that updates
  // correct.
  bool IsDue(int learner) const {
    return Due(*set_, set_->iterations + learners_[learner].iteration);
  }

  // Replicas ← z and z_prev ← z.
  virtual void Restart(const TrainedSet& set);
  // Brings the host's central model up to date where z is kept elsewhere; waits for it.
  // To be called before anybody reads or writes the model, between runs. Returns what
  // went wrong, or an empty text.
  virtual std::string Collect() { return ""; }

 protected:
  // A run over `set` begins: makes room for it.
  virtual void Prepare(const TrainedSet& set) = 0;
  // Whether the iteration that is number `iteration` for `set` (from 0) ends with a
  // synchronisation.
  virtual bool Due(const TrainedSet& set, int64_t iteration) const = 0;
  // A synchronised iteration begins in one slice: replaces z_prev by z after it, if
  // every learner takes part.
  virtual void PrepareNext(const TrainedSet& set, int member, int slice) = 0;
  // The same, when the iteration is over and these learners did not take part: takes
  // out what they would have contributed.
  virtual void Exclude(const TrainedSet& set, int member,
                       const std::vector<int>& absent) = 0;
  // A due iteration begins for `learner`, whose update of `member` will not correct by
  // itself: remembers the correction, from its weights before the update.
  virtual void Remember(int learner, const TrainedSet& set, int member) = 0;
  // Makes the correction: the remembered one or, if the weights have not been updated
  // in this task, one from the weights as they are.
  virtual void Correct(int learner, const TrainedSet& set, int member,
                       bool remembered) = 0;

  // `learner` has finished its task, or sits out; called before it is counted.
  virtual void Leaving(int learner) {}
  // Everybody has finished the iteration, and nobody has begun to synchronise the next.
  // `present`: a learner that took part, or -1.
  virtual void Completing(int present) {}
  // The same for a synchronised iteration that at least one learner took part in: makes
  // z of what has been prepared, without what `absent` would have contributed.
  virtual void Publish(const TrainedSet& set, const std::vector<int>& absent);
  // The run ends. `in_vain`: nobody took part in the last iteration, it was none.
  virtual void Ending(const TrainedSet& set, bool in_vain);

  // Waits until the iteration before the learner's is complete. False if the learner's
  // own was aborted.
  bool AwaitTurn(int learner);
  // How many learners have a task in the learner's iteration.
  int participants(int learner) const {
    return scheduler_->participants(learners_[learner].iteration);
  }
  // The number of the learner's iteration over all runs, from 1.
  int64_t number(int learner) const {
    return first_iteration_ + learners_[learner].iteration;
  }
  int num_learners() const { return num_learners_; }
  CentralModel* central() const { return central_; }
  Gate* gate() { return &gate_; }

 private:
  // Owned by the learner's thread, but for `took_part`.
  struct alignas(64) LearnerState {
    int64_t iteration = 0;            // of the run
    std::vector<uint8_t> updated;     // by member, in this task
    std::vector<uint8_t> remembered;  // by member, in this task
    // The last iteration it took part in; written in Finish() when the one before is
    // complete, and before the arrival that readers have acquired.
    int64_t took_part = -1;
  };
  // Of a slice: twice the number (over all runs) of the last iteration that has been
  // prepared, and one more while the next is being prepared. The release store in
  // Enter() pairs with the acquire loads there.
  struct alignas(64) SliceState {
    std::atomic<int64_t> prepared{0};
  };

  bool Finish(int learner, bool took_part);
  void Complete(int64_t iteration);

  const int num_learners_;
  CentralModel* const central_;
  Gate gate_;
  std::vector<LearnerState> learners_;
  std::vector<std::unique_ptr<SliceState[]>> slices_;  // by variable of the model
  int64_t first_iteration_ = 1;  // the number of the run's first one, over all runs

  TrainedSet* set_ = nullptr;                 // of the current run, not owned
  const TaskScheduler* scheduler_ = nullptr;  // of the current run, not owned
  std::atomic<int> arrived_{0};               // in the iteration under way
  // Iterations of the run that are over; the release store in Finish() pairs with the
  // acquire load in AwaitTurn().
  std::atomic<int64_t> completed_{0};
  bool nobody_took_part_ = false;  // in the last one: it was none, the data had ended
  // The first iteration of the run that a learner aborted.
  std::atomic<int64_t> first_aborted_{0};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
