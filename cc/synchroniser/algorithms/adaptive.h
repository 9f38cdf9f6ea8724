// Adaptive SGD: every learner trains its replica on batches of its own size, without
// waiting for anybody, until a mega-batch has been trained on; then the replicas are
// merged by weights that follow from how many updates each has made (mega_batches.h),
// with momentum μ, and all go on from the outcome:
//
//   z_next = Σ_j p_j w_j + μ (z − z_prev)
//
// Between two merges the model that is read is Σ_j p_j w_j of the replicas as they are,
// without momentum or perturbation; reading it changes nothing.
//
// Over several hosts j are the learners of all of them. Each adds up what its own
// learners bring, Σ_j p_j (w_j − z); with the sum of all hosts, all compute the same
// bits. Where some host has forgotten its momentum nobody has any. What is read is then
// z, the last merged model: the same on all hosts, without asking them.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_ADAPTIVE_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_ADAPTIVE_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/algorithms/mega_batches.h"
#include "cc/synchroniser/hosts/host_chunks.h"
#include "cc/synchroniser/hosts/hosts.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class Adaptive : public Algorithm {
 public:
  // `central`: keeps z, its predecessor and what is read (Keeps::kMerged). `hosts`:
  // null where there is only this one. Neither is owned.
  Adaptive(const AdaptiveOptions& options, int num_learners, CentralModel* central,
           Hosts* hosts = nullptr);

  const Traits& traits() const override { return traits_; }
  std::string Collect(int variable, const std::vector<void*>& replicas,
                      const std::vector<int>& present) override;

  // --- Between runs, or while no learner is at work.

  MegaBatches& batches() { return batches_; }
  // Whether the weights of every replica of this host are small, as the rules say;
  // false where they do not ask.
  bool AreSmall(const TrainedSet& all) const;
  // Merges the replicas of `all`, every variable that is trained, on all hosts
  // together; begins the next mega-batch. `small`: every replica is. False if other
  // hosts' part has not come: then nothing has changed.
  bool Merge(const TrainedSet& all, bool small);
  // The mega-batch does not count: the replicas of `all` ← z, without momentum.
  void Abandon(const TrainedSet& all);

 private:
  // previous ← z after the merge, of every variable of the set.
  void MergeHere(const TrainedSet& all, const std::vector<double>& weights);
  bool MergeOverHosts(const TrainedSet& all, const std::vector<double>& weights);

  CentralModel* const central_;         // not owned
  std::unique_ptr<HostChunks> chunks_;  // whose notes count hosts without momentum
  Traits traits_;
  MegaBatches batches_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_ADAPTIVE_H_
