// The trainable variables that one kind of learning run updates, and where every
// learner's replica of them lies.
//
// The variables are fixed at construction. A learner may move a replica's buffer; it
// says so with set_weights() before it arrives with it at the synchroniser.
// Thread-compatible; each learner touches its own row.
#ifndef TENSORBOW_CC_SYNCHRONISER_TRAINED_SET_H_
#define TENSORBOW_CC_SYNCHRONISER_TRAINED_SET_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace tensorbow {

class TrainedSet {
 public:
  // `variables`: indices into the central model. `momentum`: μ of the central model for
  // these variables, 0 <= momentum < 1.
  TrainedSet(int num_learners, std::vector<int> variables, double momentum)
      : variables_(std::move(variables)),
        momentum_(momentum),
        corrects_itself_(variables_.size(), false),
        weights_(num_learners, std::vector<void*>(variables_.size(), nullptr)) {}

  int size() const { return static_cast<int>(variables_.size()); }
  int variable(int member) const { return variables_[member]; }
  double momentum() const { return momentum_; }

  void* weights(int learner, int member) const { return weights_[learner][member]; }
  void set_weights(int learner, int member, void* data) {
    weights_[learner][member] = data;
  }

  // Whether the update of `member` corrects by itself (see Synchroniser), or learners
  // make it together (see Ssgd).
  bool corrects_itself(int member) const { return corrects_itself_[member]; }
  void set_corrects_itself(int member) { corrects_itself_[member] = true; }

  // Where learners meet in one task (see Ssgd): gradients that are averaged, and
  // updates that may be made together.
  int num_gradients() const { return num_gradients_; }
  int num_updates() const { return num_updates_; }
  void set_meetings(int num_gradients, int num_updates) {
    num_gradients_ = num_gradients;
    num_updates_ = num_updates;
  }

  // Completed iterations that trained this set.
  int64_t iterations = 0;

 private:
  const std::vector<int> variables_;
  const double momentum_;
  std::vector<bool> corrects_itself_;
  int num_gradients_ = 0;
  int num_updates_ = 0;
  std::vector<std::vector<void*>> weights_;  // [learner][member]
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_TRAINED_SET_H_
