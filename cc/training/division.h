// What is known of dividing the runs of one program, by which of its feeds are divided:
// when it has to be proved, and what was found. Thread-compatible.
#ifndef TENSORBOW_CC_TRAINING_DIVISION_H_
#define TENSORBOW_CC_TRAINING_DIVISION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/feeds/feeds.h"
#include "cc/learner/learner_group.h"
#include "cc/training/division_proof.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// Whether a run is not divided: that is shown to be wrong, or is in doubt and not shown
// to be right.
bool Refuses(const Verdict& verdict, const FeedPlan& plan);

class Divisions {
 public:
  // No proofs are made, for the reason given.
  explicit Divisions(std::string why_none) : why_none_(std::move(why_none)) {}
  explicit Divisions(std::unique_ptr<DivisionProof> proof) : proof_(std::move(proof)) {}

  // What was found; null if `plan` has not been proved yet.
  const Verdict* Find(const FeedPlan& plan) const;
  // Whether a run divided like this has to be proved first, when so many iterations
  // have been completed: the first time, once again a hundred iterations later, when
  // weights have left their initial values, and in between where something was too
  // small to be told.
  bool Due(const FeedPlan& plan, int64_t iterations) const;
  // Proves it, on the central values. Returns the verdict.
  const Verdict& Prove(const LearnerGroup& learners,
                       const std::vector<tensorflow::Tensor>& feeds,
                       const FeedPlan& plan, int num_learners, int64_t batch_size,
                       int64_t iterations);
  // Whether the verdict is one that nobody has asked for by this yet.
  bool TestAndClearNews(const FeedPlan& plan);
  // Learners have come or gone: shards are others, and all is to be proved again.
  void Forget() { entries_.clear(); }
  // Graphs cannot be adjusted after all: runs that would need that are not divided.
  void RefuseAdjustments(const std::string& why);

 private:
  struct Entry {
    // Which feeds, and whether a shard has but one row: some programs take that for
    // none.
    std::vector<bool> divided;
    bool single_row = false;
    Verdict verdict;
    bool news = false;
    int proofs = 0;
    int64_t first = 0;  // iterations at the first proof
    int64_t next = -1;  // iterations at which it is due again; -1: never
  };

  std::unique_ptr<DivisionProof> proof_;
  std::string why_none_;
  // Null if there is none.
  Entry* Lookup(const FeedPlan& plan);
  const Entry* Lookup(const FeedPlan& plan) const;

  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_DIVISION_H_
