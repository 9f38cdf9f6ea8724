// Synchronous parallel SGD: the gradients of all learners are averaged, in learner
// order and weighted by their shares, and every replica gets the same update. All
// replicas are equal; learner 0's stands for the model. One step with L learners of
// batch b equals, to rounding, one step of a single learner with a batch of L·b rows. A
// central model with a moving average takes in the replicas.
//
// Learners exchange gradients at points of their tasks (LearnerExchange::AllGather). A
// fused update has one: its kernel divides the slices among the participants, and each
// updates its own for all replicas. A gradient of another update has one, too. A
// learner that finishes its task without reaching a point contributes nothing.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SSGD_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SSGD_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/support/element.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/learner_exchange.h"

namespace tensorbow {

class Ssgd : public Algorithm {
 public:
  // `central`: keeps an average or nothing; not owned.
  explicit Ssgd(CentralModel* central) : central_(central) {
    traits_.averages = Traits::Averages::kGradients;
  }

  const Traits& traits() const override { return traits_; }
  void Complete(const TrainedSet& set, bool due,
                const std::vector<int>& participants) override;

 private:
  CentralModel* const central_;  // not owned
  Traits traits_;
};

// Sets `mean` to the weighted average of all learners' `own`, n elements stored as
// `type`, of the current set's gradient number `gradient`. Waits for the others.
// Returns false if the iteration was aborted.
bool ReduceGradient(const LearnerExchange& exchange, int gradient, ElementType type,
                    int64_t n, const void* own, void* mean);

// Sends gradient number `gradient` of the set's host_gradients to the other hosts,
// whose mean is read later. Waits for the other learners. Returns false if the
// iteration was aborted.
bool SendGradient(const LearnerExchange& exchange, int gradient, const void* own);

// A learner's gradient of some rows of a variable, elements stored as `type`.
struct RowGradient {
  ElementType type;
  std::vector<int64_t> rows;
  int64_t row_size;  // elements
  const void* values;
};

// Averages gradients of some rows, over the union of all learners' rows.
// `allocate(rows)`: called once with these; returns the memory of the average, or null
// for an error that the caller reports. Returns false if the iteration was aborted or
// the learners' rows differ in size.
bool ReduceRows(const LearnerExchange& exchange, int gradient, const RowGradient& own,
                const std::function<void*(const std::vector<int64_t>& rows)>& allocate);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SSGD_H_
