// Synchronous model averaging. One iteration, for every learner j and every trained
// variable, u_j being the optimiser's update from the gradient at w_j:
//
//   Centre::kCurrent, the consensus step of decentralised SGD (Lian et al., NeurIPS
//   2017) on a complete graph:
//
//     z   ← mean_j w_j               replicas as the iteration before left them
//     w_j ← w_j + u_j − α (w_j − z)
//
//   Centre::kLagging (CROSSBOW, VLDB 2019, Algorithm 1), after Polyak's averaging with
//   momentum:
//
//     c_j    = α (w_j − z)           z of the iteration before
//     w_j    ← w_j + u_j − c_j
//     z_next = z + Σ_j c_j + μ (z − z_prev) ;   z_prev ← z ;   z ← z_next
//
// Where hosts train together the mean, or the sum of the corrections, is over the
// learners of all of them. With a `host_period` H the mean is over all in the
// iterations 1, H + 1, 2H + 1, … of a variable and in the others over those of the own
// host, with corrections of another strength, α of the host.
//
// All sums are in learner order, over the learners that took part: in the last
// iteration (current), in this one (lagging). Corrections are made in every `period`-th
// iteration. With a lagging centre, μ = 0 and period τ this is elastic averaging SGD.
//
// Both need the replicas as they are before an iteration, so the learner that enters a
// slice first computes it, for all learners: the current centre in the place of z,
// which everybody corrects towards; the lagging one's z_next in the place of z_prev.
// Nothing is stored for the corrections, and updates correct in their own pass over
// memory.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_H_

#include <cstdint>
#include <memory>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

struct SmaOptions {
  enum class Centre { kCurrent, kLagging };
  Centre centre = Centre::kCurrent;
  double alpha = 0;     // 0 < alpha <= 1, lagging: alpha < 2 / (num_learners + 1)
  int64_t period = 1;   // at least 1
  double momentum = 0;  // μ; current: 0
  // With other hosts: iterations from one mean of all hosts' learners to the next, and
  // α of corrections towards the mean of this host's. Lagging: 1, and unused.
  int64_t host_period = 1;
  double host_alpha = 0;
  // Whether GPUs add up through the host's memory, and not by NCCL.
  bool reduces_on_host = false;
};

// Makes the algorithm. `central`: keeps z and, for the lagging centre, its predecessor;
// not owned. `hosts`: those whose learners are averaged together, `num_learners` of
// them here; null for one host; not owned.
std::unique_ptr<Algorithm> NewSma(const SmaOptions& options, int num_learners,
                                  CentralModel* central, Hosts* hosts = nullptr);

// What of a central model the algorithm works on.
inline CentralModel::Keeps KeptBySma(SmaOptions::Centre centre) {
  return centre == SmaOptions::Centre::kCurrent ? CentralModel::Keeps::kZ
                                                : CentralModel::Keeps::kZAndPrevious;
}
inline Traits TraitsOfSma(const SmaOptions& options) {
  return {Traits::Averages::kModels, options.alpha, options.period, options.momentum};
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_H_
