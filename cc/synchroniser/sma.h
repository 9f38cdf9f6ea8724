// Synchronous model averaging (CROSSBOW, VLDB 2019, §3), after Polyak's averaging
// with momentum. One iteration, for every learner j and every trainable variable:
//
//   u_j    the optimiser's update, from the gradient at w_j
//   c_j    = α (w_j − z)          w_j before the update, z of the iteration before
//   w_j    ← w_j + u_j − c_j
//   z_next = z + Σ_j c_j + μ (z − z_prev) ;   z_prev ← z ;   z ← z_next
//
// with the sum taken in learner order over the learners that took part. Corrections
// are made in every `period`-th iteration; with μ = 0 and period τ this is elastic
// averaging SGD.
//
// Since c_j depends on w_j before the update only, z_next is computed from the replicas
// when an iteration begins, in the place of z_prev: nothing is stored for the
// corrections, and updates correct in their own pass over memory.
#ifndef TENSORBOW_CC_SYNCHRONISER_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_SMA_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "cc/support/aligned_buffer.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

class Sma : public Synchroniser {
 public:
  // REQUIRES: 0 < alpha < 2 / (num_learners + 1), period >= 1.
  Sma(int num_learners, CentralModel* central, std::chrono::microseconds spin,
      double alpha, int64_t period);

  bool averages() const override { return true; }

  double alpha() const override { return alpha_; }

 protected:
  void Prepare(const TrainedSet& set) override;
  bool Due(const TrainedSet& set, int64_t iteration) const override;
  void PrepareNext(const TrainedSet& set, int member, int slice) override;
  void Exclude(const TrainedSet& set, int member,
               const std::vector<int>& absent) override;
  void Remember(int learner, const TrainedSet& set, int member) override;
  void Correct(int learner, const TrainedSet& set, int member,
               bool remembered) override;

 private:
  const double alpha_;
  const int64_t period_;
  // Corrections of updates that do not correct by themselves, in the accumulation type:
  // [variable][learner], allocated when needed, each by its learner's thread.
  std::vector<std::vector<AlignedBuffer>> corrections_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SMA_H_
