// Keeps the replicas of a model together.
//
// This class paces the learners through the iterations of a run, slice by slice, and
// has every slice of every iteration synchronised exactly once; a subclass is one
// algorithm. In one run:
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
//                               per slice s: Enter(j, m, s); <update>; Leave(j, m, s)
//                               Updated(j, m)
//
// All other members are corrected by BeforeTask() and AfterTask() together.
//
// Enter() waits until every learner has left the slice in the iteration before. So a
// learner may work on its next task while others still work on theirs, but nobody is
// ever more than one iteration ahead; and the outcome does not depend on who was fast,
// because whoever is last synchronises the slice in learner order. (Where an update op
// does not correct by itself, BeforeTask() waits in its stead.)
//
// When a learner aborts, the iteration it was in leaves no trace in the central model,
// and no later one begins; iterations before it are completed by the others.
//
// Everything that takes a learner may be called concurrently by different learners, the
// rest only between runs. Does not own the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
#define TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
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

  // Whether the central model is this algorithm's average (else learner 0's replica
  // stands for the model).
  virtual bool averages() const = 0;

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

  // For update ops that correct by themselves: the slice is this learner's until
  // Leave(). False if the iteration was aborted; then the op must not touch it.
  bool Enter(int learner, int member, int slice);
  void Leave(int learner, int member, int slice);
  // Every slice of the member has been entered and left in this task.
  void Updated(int learner, int member);
  bool updated(int learner, int member) const {
    return learners_[learner].updated[member];
  }
  // Waits until every learner has left all slices of the member in the iteration
  // before: nobody else reads this learner's weights until it leaves them. False if the
  // iteration was aborted.
  bool EnterAll(int learner, int member);

  // What Enter() … Leave() works on: the current run's set, the member's variable, and
  // between the two the part of z to correct towards (null if this iteration is not
  // synchronised).
  TrainedSet* set() const { return set_; }
  const CentralModel::Variable& variable(int member) const {
    return central_->variable(set_->variable(member));
  }
  template <typename A>
  const A* Target(int learner, int member, int slice) const {
    return IsDue(learner) ? variable(member).template current<A>(slice) : nullptr;
  }
  virtual double alpha() const { return 0; }
  // The slice at which `learner` begins: learners that keep pace are last, and do the
  // synchronising, in equal shares.
  int FirstSlice(int learner, int num_slices) const {
    return static_cast<int>(int64_t{num_slices} * learner / num_learners_);
  }

  // Replicas ← z and z_prev ← z.
  void Restart(const TrainedSet& set);
  // Variable `variable` of the central model has been assigned to, and so have all its
  // replicas.
  void VariableAssigned(int variable);

 protected:
  // A run over `set` begins: makes room for it.
  virtual void Prepare(const TrainedSet& set) = 0;
  // Whether the iteration that is number `iteration` for `set` (from 0) ends with a
  // synchronisation.
  virtual bool Due(const TrainedSet& set, int64_t iteration) const = 0;
  // A due iteration is about to start for `learner`, whose update of `member` will not
  // correct by itself: remembers the correction, from its weights before the update.
  virtual void Remember(int learner, const TrainedSet& set, int member) = 0;
  // Makes the correction in one slice: the remembered one or, if the weights have not
  // been updated in this task, one from the weights as they are.
  virtual void Correct(int learner, const TrainedSet& set, int member, int slice,
                       bool remembered) = 0;
  // A synchronised iteration is over in one slice, but these learners did not take part
  // in it: takes what they would have contributed out of `next`. The slice has not been
  // rotated yet.
  virtual void Exclude(const TrainedSet& set, int member, int slice,
                       const std::vector<int>& absent) = 0;
  // Computes `next` of one slice: z after the next synchronised iteration of `set`, if
  // every learner takes part.
  virtual void PrepareNext(const TrainedSet& set, int member, int slice) = 0;

  int num_learners() const { return num_learners_; }
  CentralModel* central() const { return central_; }

 private:
  struct alignas(64) LearnerState {
    // Tasks begun in this run; the release store in BeforeTask() comes before the
    // arrival in Leave() that its readers have acquired.
    std::atomic<int64_t> begun{0};
    int64_t iteration = 0;            // of the run; owned by the learner's thread
    std::atomic<int64_t> absent{-1};  // the iteration it sits out
    std::vector<uint8_t> updated;     // by member, in this task
    std::vector<uint8_t> remembered;  // by member, in this task
  };
  struct alignas(64) SliceState {
    // Iterations that every learner has left; the release store in Leave() pairs with
    // the acquire loads in Enter().
    std::atomic<int64_t> completed{0};
    std::atomic<int> arrived{0};  // in the iteration under way
  };
  // Per variable of the central model.
  struct VariableState {
    std::unique_ptr<SliceState[]> slices;
    // Whether `next` is right for any momentum, for `momentum`, or not at all.
    enum { kAny, kForMomentum, kStale } next = kAny;
    double momentum = 0;
  };

  VariableState& state(int member) { return variables_[set_->variable(member)]; }
  SliceState& state(int member, int slice) { return state(member).slices[slice]; }
  bool IsDue(int learner) const {
    return Due(*set_, set_->iterations + learners_[learner].iteration);
  }
  bool TookPart(int learner, int64_t iteration) const;
  bool Arrive(int learner, bool took_part);
  void CompleteSlice(int member, int slice, int64_t iteration);

  const int num_learners_;
  CentralModel* const central_;
  Gate gate_;
  std::vector<LearnerState> learners_;
  std::vector<VariableState> variables_;

  TrainedSet* set_ = nullptr;                 // of the current run, not owned
  const TaskScheduler* scheduler_ = nullptr;  // of the current run, not owned
  // The first iteration of the run that a learner aborted.
  std::atomic<int64_t> first_aborted_{0};
  std::atomic<bool> anybody_took_part_{false};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
