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
// On several hosts the mean, or the sum of the corrections, is over the learners of
// all. With a `host_period` H, iterations 1, H + 1, 2H + 1, … of a variable average
// over all hosts. The others average over the own host's learners and correct with the
// host's α.
//
// All sums are in learner order, over the participants: of the last iteration (current)
// or this one (lagging). Every `period`-th iteration corrects. With a lagging centre,
// μ = 0 and period τ this is elastic averaging SGD.
//
// Both centres need the replicas from before an iteration. So the learner that enters a
// slice first computes it for all: the current centre replaces z, and the lagging one's
// z_next replaces z_prev. Corrections need no memory, and updates correct in their own
// pass.
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
  // On several hosts: iterations between means over all hosts, and α of corrections
  // towards the own host's mean. Lagging: 1, and unused.
  int64_t host_period = 1;
  double host_alpha = 0;
  // Makes GPUs add up in the host's memory instead of by NCCL.
  bool reduces_on_host = false;
};

// Makes the algorithm. `num_learners`: of this host. `central`: keeps z and, for the
// lagging centre, its predecessor; not owned. `hosts`: null for one host; not owned.
std::unique_ptr<Algorithm> NewSma(const SmaOptions& options, int num_learners,
                                  CentralModel* central, Hosts* hosts = nullptr);

// The values of a central model that the algorithm needs.
inline CentralModel::Keeps KeptBySma(SmaOptions::Centre centre) {
  return centre == SmaOptions::Centre::kCurrent ? CentralModel::Keeps::kZ
                                                : CentralModel::Keeps::kZAndPrevious;
}
inline Traits TraitsOfSma(const SmaOptions& options) {
  return {Traits::Averages::kModels, options.alpha, options.period, options.momentum};
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_H_
