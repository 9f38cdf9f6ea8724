// What keeps the replicas of a model together: one algorithm, as the synchroniser calls
// it. The synchroniser knows who takes part in an iteration and who waits for whom
// (synchroniser.h); an algorithm knows formulas. An algorithm overrides what it does
// something in.
//
// PrepareSlice(), Remember() and Correct() are called concurrently by learners, for
// different slices or learners; everything else while no learner is at work on the
// variables. Does not own the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHM_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

// What the learners have in common, and how often.
struct Traits {
  // kModels: in every iteration, or every so many; kMergedModels: learners go their own
  // ways between merges.
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
  // The strength of the corrections of a variable of the model in the iteration under
  // way.
  virtual double Alpha(int variable) const { return traits().alpha; }
  // That strength, from now on: hosts have been lost.
  virtual void SetAlpha(double alpha) {}

  // The iterations from now on train this set; also before one that other hosts train.
  virtual void Begin(const TrainedSet& set) {}

  // Makes a slice ready for an iteration, before any learner changes its part of it.
  // Called once an iteration for every slice. `due`: the iteration corrects. `present`:
  // the learners that took part in the last iteration that trained the variable.
  virtual void PrepareSlice(const TrainedSet& set, int member, int slice, bool due,
                            const std::vector<int>& present) {}

  // For updates that do not correct by themselves, in an iteration that is due, after
  // the member has been prepared: remembers the correction, from the learner's weights
  // before the update; makes it after the update or, if the weights have not been
  // updated in this task, from the weights as they are.
  virtual void Remember(int learner, const TrainedSet& set, int member) {}
  virtual void Correct(int learner, const TrainedSet& set, int member,
                       bool remembered) {}

  // Every learner has finished the iteration, or sits it out. `present`: those that
  // took part, ascending; at least one, unless other hosts have some.
  virtual void Complete(const TrainedSet& set, bool due,
                        const std::vector<int>& present) {}

  // The replicas of `learners` ← z as it was when the last iteration began that has not
  // been completed or, if there is none, as it is. `present`: as above, of the member's
  // variable.
  virtual void Reset(const TrainedSet& set, int member,
                     const std::vector<int>& learners,
                     const std::vector<int>& present) {}

  // Waits for what other hosts have sent of a variable in the last iteration that was
  // completed. Whether it is there.
  virtual bool HasArrived(int variable) { return true; }

  // Brings all that the model keeps of a variable up to date, in host memory, between
  // runs. `replicas`: the learners' values. Returns what went wrong, or an empty text.
  virtual std::string Collect(int variable, const std::vector<void*>& replicas,
                              const std::vector<int>& present) {
    return "";
  }
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHM_H_
