// The trainable variables that one kind of learning run updates, and the addresses of
// the learners' replicas.
//
// The variables are fixed at construction. A learner that moves a replica's buffer
// calls set_weights() before it arrives with it at the synchroniser. Thread-compatible;
// each learner sets its own.
#ifndef TENSORBOW_CC_SYNCHRONISER_TRAINED_SET_H_
#define TENSORBOW_CC_SYNCHRONISER_TRAINED_SET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tensorbow {

class HostGradients;

class TrainedSet {
 public:
  // `variables`: indices into the central model.
  TrainedSet(int num_learners, std::vector<int> variables)
      : variables_(std::move(variables)),
        corrects_itself_(variables_.size(), false),
        replicas_(variables_.size(), std::vector<void*>(num_learners, nullptr)) {}

  int size() const { return static_cast<int>(variables_.size()); }
  int variable(int member) const { return variables_[member]; }
  const std::vector<int>& variables() const { return variables_; }  // by member

  void* weights(int learner, int member) const { return replicas_[member][learner]; }
  // The replicas of a member, by learner.
  const std::vector<void*>& replicas(int member) const { return replicas_[member]; }
  void set_weights(int learner, int member, void* data) {
    replicas_[member][learner] = data;
  }

  // Returns whether the update op of `member` corrects, or averages, by itself.
  bool corrects_itself(int member) const { return corrects_itself_[member]; }
  void set_corrects_itself(int member) { corrects_itself_[member] = true; }

  // The points of a task at which learners exchange values: first those of averaged
  // gradients, then those of updates that all make in parts.
  int num_gradients() const { return num_gradients_; }
  int num_updates() const { return num_updates_; }
  int update_point(int update) const { return num_gradients_ + update; }
  void set_exchanges(int num_gradients, int num_updates) {
    num_gradients_ = num_gradients;
    num_updates_ = num_updates;
  }

  // The identity of the program, by which hosts check that they train the same.
  int64_t program = 0;
  // The gradients that hosts average before they update; null for none.
  std::shared_ptr<HostGradients> host_gradients;

  // The number of iterations that have trained this set and count on all hosts. Copies
  // of the set share it, so that an iteration can be undone later.
  int64_t iterations() const { return iterations_->load(); }
  void set_iterations(int64_t iterations) { iterations_->store(iterations); }
  using Count = std::shared_ptr<std::atomic<int64_t>>;
  const Count& count() const { return iterations_; }
  void set_count(Count count) { iterations_ = std::move(count); }

 private:
  const std::vector<int> variables_;
  std::vector<bool> corrects_itself_;
  int num_gradients_ = 0;
  int num_updates_ = 0;
  std::vector<std::vector<void*>> replicas_;  // [member][learner]
  Count iterations_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_TRAINED_SET_H_
