// Learners on threads of their own, paced by a synchroniser in the loop of the trainer.
// The conformance suite runs every algorithm on them. Their "optimiser" adds numbers to
// the weights. All functions are called between runs, except those for tasks.
#ifndef TENSORBOW_TESTS_CC_LEARNERS_H_
#define TENSORBOW_TESTS_CC_LEARNERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/synchroniser.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

struct AlgorithmCase {
  enum class Kind { kSma, kSsgd, kIndependent };
  std::string name;
  Kind kind = Kind::kSma;
  SmaOptions sma = {};
  double ema_decay = 0;
};

enum class Update {
  kByTheSynchroniser,  // is corrected before and after the task, or has its gradient
                       // averaged
  kByItself,           // corrects in its own pass, or is made for all learners
  kNowAndThen          // by itself, in two tasks of three
};

class Learners {
 public:
  static constexpr int kMembers = 2;  // variables, all trained
  static constexpr int64_t kSizes[kMembers] = {CentralModel::kSliceElements + 17, 5};
  // Elements i and i + kPattern of a variable start equal, and stay so.
  static constexpr int kPattern = 13;
  static float Start(int64_t i) { return 0.125f * static_cast<float>(i % kPattern); }

  // The ways in which a task ends.
  enum class End { kTrained, kFailed, kNoData };
  using Task = std::function<End(int learner, int64_t task, int64_t iteration)>;

  // `skips`: whether tasks omit the updates that Update::kNowAndThen omits. `hosts`:
  // average models together; null for one host.
  Learners(const AlgorithmCase& algorithm, int count, Update update,
           std::chrono::microseconds spin, bool skips, Hosts* hosts = nullptr);
  Learners(const AlgorithmCase& algorithm, int count, Update update,
           std::chrono::microseconds spin)
      : Learners(algorithm, count, update, spin, update == Update::kNowAndThen) {}

  // Executes a run of `tasks` tasks; returns the number of completed iterations. Each
  // learner calls `before_first`, if any, before it asks for its first task.
  int64_t Run(int64_t tasks, SchedulingPolicy policy, const Task& task,
              const std::function<void(int learner)>& before_first = nullptr);
  // Executes tasks that train, handed out in turn.
  int64_t Run(int64_t tasks);

  // --- Within a task.

  // Updates the members by the task's number.
  End Train(int learner, int64_t task);
  // Returns the number that Train() adds to the weights of a member.
  static float StepOf(int64_t task, int member) {
    return 0.25f * static_cast<float>((task + 2 * member) % 7 - 2);
  }
  // Returns whether Train() skips the member. If gradients are averaged, all learners
  // skip it in the same iterations.
  bool Skips(int64_t task, int member) const;
  // Updates one member; returns false if the iteration was aborted.
  bool Add(int learner, int member, float step);

  // --- Between runs.

  void Collect();
  // Returns z of all members, as it was collected.
  std::vector<float> Central() const;
  std::vector<float> Replica(int learner) const;
  // Collects, and returns replicas, z and its average, if they exist.
  std::vector<std::vector<float>> Outcome();

  int count() const { return static_cast<int>(replicas_.size()); }
  CentralModel& model() { return model_; }
  TrainedSet& set() { return *set_; }
  Synchroniser& synchroniser() { return *synchroniser_; }
  HostRounds* rounds() { return rounds_.get(); }

 private:
  void RunTasks(int learner, const Task& task);
  bool AddWithCorrection(int learner, int member, float step);
  bool AddMean(int learner, int member, float step);
  bool AddMeanForAll(int learner, int member, float step);
  std::unique_ptr<Algorithm> NewAlgorithm(int count, Hosts* hosts);

  const AlgorithmCase algorithm_;
  const Update update_;
  const bool skips_;
  CentralModel model_;
  TaskScheduler scheduler_;
  std::vector<std::vector<std::vector<float>>> replicas_;  // by learner and member
  std::unique_ptr<TrainedSet> set_;
  std::unique_ptr<HostRounds> rounds_;  // null with one host
  std::unique_ptr<Synchroniser> synchroniser_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_LEARNERS_H_
