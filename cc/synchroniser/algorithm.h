// The formulas that keep the replicas of a model together. The synchroniser decides who
// takes part in an iteration and who waits for whom (synchroniser.h). Hooks default to
// nothing.
//
// Learners call PrepareSlice(), Remember() and Correct() concurrently, for different
// slices or learners. All else is called while no learner works on the variables. Does
// not own the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHM_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

// The values that learners average, and how often.
struct Traits {
  // kModels: in every `period`-th iteration; kMergedModels: learners train
  // independently between merges.
  enum class Averages { kNothing, kModels, kGradients, kMergedModels };
  Averages averages = Averages::kNothing;
  double alpha = 0;     // of a correction α (w − z), where models are averaged
  int64_t period = 1;   // iterations from one correction to the next
  double momentum = 0;  // of the central model

  bool averages_models() const { return averages == Averages::kModels; }
  bool averages_gradients() const { return averages == Averages::kGradients; }
  bool merges_models() const { return averages == Averages::kMergedModels; }
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  virtual const Traits& traits() const = 0;
  // Returns the strength of a variable's corrections in the iteration under way.
  virtual double Alpha(int variable) const { return traits().alpha; }
  // Sets that strength from now on, after hosts have been lost.
  virtual void SetAlpha(double alpha) {}

  // Starts iterations that train this set; also those that only other hosts train.
  virtual void Begin(const TrainedSet& set) {}

  // Prepares a slice before any learner changes its part of it, once an iteration.
  // `due`: the iteration corrects. `participants`: of the variable's last iteration.
  virtual void PrepareSlice(const TrainedSet& set, int member, int slice, bool due,
                            const std::vector<int>& participants) {}

  // Correct a member whose update op does not, in a due iteration, once it is prepared.
  // Remember() stores the correction from the weights before the update. Correct()
  // makes it; without a stored one, from the weights as they are.
  virtual void Remember(int learner, const TrainedSet& set, int member) {}
  virtual void Correct(int learner, const TrainedSet& set, int member,
                       bool remembered) {}

  // Completes an iteration that every learner has finished or skipped. `participants`:
  // ascending; at least one, unless other hosts have some.
  virtual void Complete(const TrainedSet& set, bool due,
                        const std::vector<int>& participants) {}

  // Sets the replicas of `learners` to z as it was before the iteration under way, if
  // any. `participants`: as for PrepareSlice().
  virtual void Reset(const TrainedSet& set, int member,
                     const std::vector<int>& learners,
                     const std::vector<int>& participants) {}

  // Waits for the other hosts' values of a variable in the last completed iteration.
  // Returns whether they have arrived.
  virtual bool HasArrived(int variable) { return true; }

  // Brings the model's values of a variable up to date in host memory, between runs.
  // `replicas`: the learners' values. Returns an error, empty on success.
  virtual std::string Collect(int variable, const std::vector<void*>& replicas,
                              const std::vector<int>& participants) {
    return "";
  }
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHM_H_
