// The rules of Adaptive SGD (Ma and Rusu, "Adaptive Elastic Training for Sparse Deep
// Learning on Heterogeneous Multi-GPU Servers", arXiv 2110.07029): how many rows a
// learner's next batch has, at what learning rate, and what each replica weighs when
// all are merged.
//
// A mega-batch is a fixed number of rows. Within it learner i makes u_i updates from
// batches of b_i rows; ū is the mean of the u_i. Then:
//
//   weights   p_i = b_i / Σb where all u_i are equal, else u_i / Σu; the most updates
//             and the fewest weigh 1 + δ and 1 − δ times that, where every replica is
//             small: ‖w_i‖₂ / |w_i| < threshold
//   sizes     u_i > ū, b_i + β (u_i − ū) ≤ b_max:  b_i ← b_i + β (u_i − ū)
//             u_i < ū, b_i − β (ū − u_i) ≥ b_min:  b_i ← b_i − β (ū − u_i), rounded
//   rates     in proportion to the sizes: b_i / b_max times the optimiser's
//
// In addition, where all u_i are equal nobody is fast or slow, and where a learner has
// made no update its weight of nothing cannot make up for another's 1 + δ: then δ is 0.
//
// NoteUpdate() may be called concurrently by different learners, everything else while
// no learner is at work.
#ifndef TENSORBOW_CC_SYNCHRONISER_MEGA_BATCHES_H_
#define TENSORBOW_CC_SYNCHRONISER_MEGA_BATCHES_H_

#include <cstdint>
#include <deque>
#include <vector>

namespace tensorbow {

struct AdaptiveOptions {
  int64_t mega_batch = 0;     // rows; 0: 100 b_max
  int64_t b_max = 0;          // rows; 0: the first run's, divided among the learners
  int64_t b_min = 0;          // rows; 0: b_max / 8, at least 1
  double beta = 0;            // rows for one update more or less; 0: b_min / 2
  double perturbation = 0.1;  // δ
  double threshold = 0.1;
  double momentum = 0.9;   // of the merged model
  bool scales = true;      // sizes follow the updates
  bool normalises = true;  // weights as above; else equal ones
};

class MegaBatches {
 public:
  // What has become of a mega-batch; by learner.
  struct Record {
    std::vector<int64_t> sizes;    // b_i
    std::vector<double> rates;     // b_i / b_max
    std::vector<int64_t> updates;  // u_i
    std::vector<int64_t> rows;     // trained on
    std::vector<double> weights;   // p_i
  };
  static constexpr int64_t kMostRecords = 1000;

  MegaBatches(const AdaptiveOptions& options, int num_learners);

  // What the options leave open follows from the first run, of so many rows. No-op
  // afterwards.
  void Begin(int64_t rows);
  // Batches are what the data makes them: sizes and rates stay as they are.
  void FixSizes() { options_.scales = false; }

  const AdaptiveOptions& options() const {
    return options_;
  }  // none open after Begin()
  int num_learners() const { return static_cast<int>(learners_.size()); }
  int64_t size(int learner) const { return learners_[learner].size; }
  // What the optimiser's learning rate is multiplied by.
  double rate(int learner) const;

  // The learner has made an update from so many rows.
  void NoteUpdate(int learner, int64_t rows);

  int64_t num_updates() const;  // of all learners in this mega-batch
  int64_t rows_left() const;    // of it
  bool complete() const { return num_updates() > 0 && rows_left() <= 0; }
  bool every_learner_has_updated() const;

  // p. `perturbs`: every replica is small.
  std::vector<double> Weights(bool perturbs) const;
  // The mega-batch is complete, merged with these weights: scales the sizes for the
  // next one.
  void Next(std::vector<double> weights);
  // The mega-batch does not count: another begins.
  void Abandon();

  // The last mega-batches, oldest first.
  const std::deque<Record>& records() const { return records_; }

  // What is saved of it: sizes, updates and rows by learner, and b_max. Set() returns
  // false for what Get() cannot have given.
  static int64_t NumSaved(int64_t num_learners) { return 3 * num_learners + 1; }
  std::vector<int64_t> Get() const;
  bool Set(const std::vector<int64_t>& saved);

 private:
  // `updates` and `rows` are written by the learner's thread.
  struct alignas(64) LearnerState {
    int64_t size = 0;
    int64_t updates = 0;
    int64_t rows = 0;
  };

  AdaptiveOptions options_;
  bool open_;  // Begin() has something to choose
  std::vector<LearnerState> learners_;
  std::deque<Record> records_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_MEGA_BATCHES_H_
