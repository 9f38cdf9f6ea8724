// The trainable variables that one kind of learning run updates, and where every
// learner's replica of them lies.
//
// The variables are fixed at construction. A learner may move a replica's buffer; it
// says so with set_weights() before it arrives with it at the synchroniser.
// Thread-compatible; each learner sets its own.
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
  // By learner.
  const std::vector<void*>& replicas(int member) const { return replicas_[member]; }
  void set_weights(int learner, int member, void* data) {
    replicas_[member][learner] = data;
  }

  // Whether the update of `member` corrects by itself, or learners make it together
  // (see Synchroniser).
  bool corrects_itself(int member) const { return corrects_itself_[member]; }
  void set_corrects_itself(int member) { corrects_itself_[member] = true; }

  // Where learners exchange values in one task: gradients that are averaged, and
  // updates that may be made together. The points of the updates follow those of the
  // gradients.
  int num_gradients() const { return num_gradients_; }
  int num_updates() const { return num_updates_; }
  int update_point(int update) const { return num_gradients_ + update; }
  void set_exchanges(int num_gradients, int num_updates) {
    num_gradients_ = num_gradients;
    num_updates_ = num_updates;
  }

  // What hosts go by to tell whether they train the same.
  int64_t program = 0;
  // What they average before they update, null for nothing.
  std::shared_ptr<HostGradients> host_gradients;

  // Iterations that have trained this set and count, on all hosts. Copies of the set
  // share them: who learns that one does not count may know of nothing else.
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
