// No synchronisation: every learner trains on its own (sweeps, ensembles, and the
// measure of what synchronisation costs). Learner 0's replica stands for the model.
#ifndef TENSORBOW_CC_SYNCHRONISER_INDEPENDENT_H_
#define TENSORBOW_CC_SYNCHRONISER_INDEPENDENT_H_

#include <vector>

#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

class Independent : public Synchroniser {
 public:
  using Synchroniser::Synchroniser;

  bool averages() const override { return false; }

 protected:
  void Prepare(const TrainedSet&) override {}
  bool Due(const TrainedSet&, int64_t) const override { return false; }
  void PrepareNext(const TrainedSet&, int, int) override {}
  void Exclude(const TrainedSet&, int, const std::vector<int>&) override {}
  void Remember(int, const TrainedSet&, int) override {}
  void Correct(int, const TrainedSet&, int, bool) override {}
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_INDEPENDENT_H_
