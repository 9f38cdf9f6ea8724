// No synchronisation: every learner trains on its own (sweeps, ensembles, and the
// baseline for the cost of synchronisation). Learner 0's replica stands for the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_INDEPENDENT_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_INDEPENDENT_H_

#include "cc/synchroniser/algorithm.h"

namespace tensorbow {

class Independent : public Algorithm {
 public:
  const Traits& traits() const override { return traits_; }

 private:
  const Traits traits_{};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_INDEPENDENT_H_
