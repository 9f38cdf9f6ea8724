// Adaptive SGD: every learner trains its replica on batches of its own size, without
// waiting for anybody, until a mega-batch has been trained on; then the replicas are
// merged by weights that follow from how many updates each has made (mega_batches.h),
// with momentum μ, and all go on from the outcome:
//
//   z_next = Σ_j p_j w_j + μ (z − z_prev)
//
// Between two merges the model that is read is Σ_j p_j w_j of the replicas as they are,
// without momentum or perturbation; reading it changes nothing.
#ifndef TENSORBOW_CC_SYNCHRONISER_ADAPTIVE_H_
#define TENSORBOW_CC_SYNCHRONISER_ADAPTIVE_H_

#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/mega_batches.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class Adaptive : public Algorithm {
 public:
  // `central`: keeps z, its predecessor and what is read (Keeps::kMerged); not owned.
  Adaptive(const AdaptiveOptions& options, int num_learners, CentralModel* central);

  const Traits& traits() const override { return traits_; }
  std::string Collect(int variable, const std::vector<void*>& replicas,
                      const std::vector<int>& present) override;

  // --- Between runs, or while no learner is at work.

  MegaBatches& batches() { return batches_; }
  // Merges the replicas of `all`, every variable that is trained; begins the next
  // mega-batch.
  void Merge(const TrainedSet& all);
  // The mega-batch does not count: the replicas of `all` ← z, without momentum.
  void Abandon(const TrainedSet& all);

 private:
  // Whether the weights of every replica are small, as the rules say.
  bool AreSmall(const TrainedSet& all) const;

  CentralModel* const central_;  // not owned
  Traits traits_;
  MegaBatches batches_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ADAPTIVE_H_
