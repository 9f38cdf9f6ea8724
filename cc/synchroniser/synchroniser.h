// Paces the learners through the iterations of a run. Decides who takes part, who waits
// for whom, and when an iteration is complete or discarded. The algorithm computes
// (algorithm.h). One object, with a face for each caller:
//
//   Synchroniser     the trainer, between runs
//   LearnerPace      a learner's thread, around its tasks
//   UpdateAccess     update kernels, within a task
//   LearnerExchange  kernels in which learners wait for each other
//
// In one run:
//
//   trainer                     each learner that has tasks, on its own thread
//   -------                     ----------------------------------------------
//   BeginRun(set, scheduler)
//                               per task: BeforeTask(); <execute>; AfterTask()
//   EndRun()
//
// A fused update op corrects its member of the set within the task:
//
//                               per slice s: Enter(m, s); <update>
//                               Updated(m)
//
// BeforeTask() and AfterTask() together correct all other members.
//
// Enter() waits until every learner has finished its task of the iteration before. So a
// learner may start its next task while others still work, but nobody is more than one
// iteration ahead. If no update op corrects by itself, BeforeTask() waits instead. The
// first learner that enters a slice has the algorithm prepare it for all, before
// anybody changes it. So the result does not depend on speed, and the slowest learner
// has the least work.
//
// When a learner aborts, its iteration leaves no trace in the central model, and no
// later one starts. The others complete the iterations before it. A learner that had no
// task in the last iteration starts its next one from z.
//
// On streams (GPUs) a learner has finished once its task is enqueued; a DeviceQueue
// orders the streams.
//
// On several hosts an iteration is complete when it is complete on all. No learner
// enters a slice before all hosts have reported on the iteration before
// (host_rounds.h).
//
// Not thread-safe: everything here is called between runs.
#ifndef TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
#define TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/device_queue.h"
#include "cc/synchroniser/hosts/host_rounds.h"
#include "cc/synchroniser/learner_exchange.h"
#include "cc/synchroniser/learner_pace.h"
#include "cc/synchroniser/trained_set.h"
#include "cc/synchroniser/update_access.h"

namespace tensorbow {

struct SynchroniserCore;

class Synchroniser {
 public:
  // `spin`: see Gate. `queue`: null unless tasks are enqueued on streams; lives as long
  // as `algorithm`. `rounds`: null without other hosts. Owns only the algorithm.
  Synchroniser(int num_learners, CentralModel* central, std::chrono::microseconds spin,
               std::unique_ptr<Algorithm> algorithm, DeviceQueue* queue = nullptr,
               HostRounds* rounds = nullptr);
  ~Synchroniser();

  Synchroniser(const Synchroniser&) = delete;
  Synchroniser& operator=(const Synchroniser&) = delete;

  const Traits& traits() const;
  // The permanent failure of the device queue, after which all iterations abort; empty
  // if there is none.
  std::string error() const;

  // The faces of one learner, for its thread.
  LearnerPace pace(int learner) { return {this, learner}; }
  UpdateAccess updates(int learner) { return {this, learner}; }
  LearnerExchange exchange(int learner) { return {this, learner}; }

  // Sets where the learner records its activity; null for nowhere, not owned.
  void set_activity(int learner, LearnerActivity* activity);
  // Starts a run. The first learners execute its tasks, as many as its first iteration
  // has participants. REQUIRES: the set knows all replicas.
  void BeginRun(TrainedSet* set, const TaskScheduler* scheduler);
  // Returns the number of iterations that completed.
  int64_t EndRun();
  // Makes the next run without the other hosts, for its fetches alone: its updates will
  // be replaced.
  void RunWithoutHosts(bool without_hosts);
  // Returns whether the last run ended because an iteration does not count on all
  // hosts.
  bool stopped_by_hosts() const;
  // Takes part in one iteration of the other hosts without a task; counts it if they
  // do. REQUIRES: they train the same variables; the last iteration counts or is
  // forgiven.
  HostRounds::Result JoinWithoutTask(const TrainedSet& set, HostRounds::Kind kind);
  // Sets all replicas of the set to z, without momentum. After an aborted run, z is the
  // value from before the aborted iteration.
  void Restart(const TrainedSet& set);
  // Sets to z the replicas of the first `active` learners that did not take part in the
  // variable's last iteration.
  void ResetNonParticipants(const TrainedSet& set, int active);
  // Brings the central values of a variable up to date before they are read or written.
  // `replicas`: by learner. Returns an error, empty on success.
  std::string Collect(int variable, const std::vector<void*>& replicas);
  // Sets the strength of corrections from now on.
  void SetAlpha(double alpha);

  // The learners that took part in the variable's last iteration, ascending: z is
  // theirs. All, if none trained it since all replicas were set to one value.
  std::vector<int> participants(int variable) const;
  void SetParticipants(int variable, std::vector<int> learners);
  void SetAllParticipants(int variable);

 private:
  friend class LearnerExchange;
  friend class LearnerPace;
  friend class UpdateAccess;

  const std::unique_ptr<SynchroniserCore> core_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SYNCHRONISER_H_
