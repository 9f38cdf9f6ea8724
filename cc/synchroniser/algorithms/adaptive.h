// Adaptive SGD. Every learner trains its replica on batches of its own size, without
// waiting, until all have trained on a mega-batch. Then the replicas are merged, by
// weights that depend on each one's updates (mega_batches.h) and with momentum μ:
//
//   z_next = Σ_j p_j w_j + μ (z − z_prev)
//
// Between merges, users read Σ_j p_j w_j of the current replicas, without momentum or
// perturbation. Reading changes nothing.
//
// Over several hosts, j are the learners of all. Each host adds up its learners' part,
// Σ_j p_j (w_j − z); from the sum of all hosts, all compute the same bits. If a host
// has no momentum, none has. Users then read z, the last merged model, which is the
// same on all hosts.
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
  // `central`: keeps z, its predecessor and the model to read (Keeps::kMerged).
  // `hosts`: null for one host. Neither is owned.
  Adaptive(const AdaptiveOptions& options, int num_learners, CentralModel* central,
           Hosts* hosts = nullptr);

  const Traits& traits() const override { return traits_; }
  std::string Collect(int variable, const std::vector<void*>& replicas,
                      const std::vector<int>& participants) override;

  // --- Between runs, or while no learner works.

  MegaBatches& batches() { return batches_; }
  // Returns whether every replica of this host is small by the rules; false if the
  // rules do not depend on it.
  bool AreSmall(const TrainedSet& all) const;
  // Merges the replicas of `all`, the trained variables, over all hosts; starts the
  // next mega-batch. `small`: every replica is. Returns false, changing nothing, if the
  // other hosts' part has not arrived.
  bool Merge(const TrainedSet& all, bool small);
  // Discards the mega-batch: sets the replicas of `all` to z, without momentum.
  void Abandon(const TrainedSet& all);

 private:
  // Sets `previous` to z after the merge, for every variable of the set.
  void MergeHere(const TrainedSet& all, const std::vector<double>& weights);
  bool MergeOverHosts(const TrainedSet& all, const std::vector<double>& weights);

  CentralModel* const central_;         // not owned
  std::unique_ptr<HostChunks> chunks_;  // notes count hosts without momentum
  Traits traits_;
  MegaBatches batches_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_ADAPTIVE_H_
