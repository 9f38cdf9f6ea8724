// The training of a session, for coordinators. Asserts the state's lock.
#ifndef TENSORBOW_CC_COORDINATION_REPLICATED_TRAINING_H_
#define TENSORBOW_CC_COORDINATION_REPLICATED_TRAINING_H_

#include <string>
#include <vector>

#include "cc/coordination/host_training.h"
#include "cc/training/training_state.h"

namespace tensorbow {

class ReplicatedTraining : public HostTraining {
 public:
  explicit ReplicatedTraining(TrainingState* state) : state_(state) {}  // not owned

  int num_learners() const override { return state_->num_learners(); }
  HostRounds::Counts counts() const override { return state_->counters().Get(); }
  std::string DescribeOptions() override;
  std::string DescribeVariables() override;
  int64_t num_variables() override;
  bool averages_gradients() override;
  void Warn(const std::string& text) override { state_->warn()(text); }
  void RequestRestart() override { state_->RequestRestart(); }
  absl::StatusOr<HostValues> Model(bool everything) override;
  absl::Status SetModel(const HostValues& values, bool everything) override;
  absl::StatusOr<HostValues> Values(const std::vector<int>& variables) override;
  absl::Status SetValues(const std::vector<int>& variables,
                         const HostValues& values) override;
  HostRounds::Result JoinWithoutTask(const TrainedSet& set,
                                     HostRounds::Kind kind) override;
  void SetHosts(const std::vector<int>& learners) override;
  absl::StatusOr<TrainedSet> LocateModel() override;
  int64_t ModelFingerprint() override;
  Adaptive* adaptive() override;
  HostMerges* host_merges() override;

 private:
  TrainingState* const state_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_REPLICATED_TRAINING_H_
