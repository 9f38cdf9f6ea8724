// The rules of Adaptive SGD (Ma and Rusu, "Adaptive Elastic Training for Sparse Deep
// Learning on Heterogeneous Multi-GPU Servers", arXiv 2110.07029): the rows of a
// learner's next batch, its learning rate, and the weights of replicas in a merge.
//
// A mega-batch is a fixed number of rows. Within it learner i makes u_i updates from
// batches of b_i rows; ū is the mean of the u_i. Then:
//
//   weights   p_i = b_i / Σb if all u_i are equal, else u_i / Σu; if every replica is
//             small, ‖w_i‖₂ / |w_i| < threshold, the most updates and the fewest weigh
//             1 + δ and 1 − δ times that
//   sizes     u_i > ū, b_i + β (u_i − ū) ≤ b_max:  b_i ← b_i + β (u_i − ū)
//             u_i < ū, b_i − β (ū − u_i) ≥ b_min:  b_i ← b_i − β (ū − u_i), rounded
//   rates     in proportion to the sizes: b_i / b_max times the optimiser's
//
// δ is 0 if all u_i are equal (nobody is fast or slow) or one is 0 (its weight of 0
// cannot make up for another's 1 + δ).
//
// The learners may be those of several hosts, in host order. Then every host trains on
// its own share of the mega-batch. The rules above leave out a host without updates,
// which has no data. After a mega-batch
//
//   shares    of the hosts with data: in proportion to their speed, rows over seconds
//             of training, or to their learners; at least b_max rows each (an equal
//             share, if that is less); the other hosts keep theirs
//
// All hosts know the same numbers and so choose the same (host_merges.h).
//
// Different learners may call RecordUpdate() concurrently. All else is called while no
// learner works.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_MEGA_BATCHES_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_MEGA_BATCHES_H_

#include <algorithm>
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

// Returns integers in proportion to `speeds` that add up to `rows` and are at least
// `least`. REQUIRES: one speed is greater than 0; rows >= least * their number.
std::vector<int64_t> DivideRows(int64_t rows, const std::vector<double>& speeds,
                                int64_t least);

class MegaBatches {
 public:
  // The record of a mega-batch; by learner, of all hosts.
  struct Record {
    std::vector<int64_t> sizes;    // b_i
    std::vector<double> rates;     // b_i / b_max
    std::vector<int64_t> updates;  // u_i
    std::vector<int64_t> rows;     // trained on
    std::vector<double> weights;   // p_i
  };
  // A host's part of a mega-batch.
  struct Part {
    bool has_data = true;
    bool fixes_sizes = false;
    int64_t micros = 0;                  // of training
    std::vector<int64_t> updates, rows;  // by learner
  };
  static constexpr int64_t kMostRecords = 1000;

  MegaBatches(const AdaptiveOptions& options, int num_learners);

  // Sets the number of learners of each host, and the index of this one. `by_speed`:
  // shares follow the hosts' speeds. REQUIRES: a b_max; nothing has been trained.
  void SetHosts(const std::vector<int>& learners, int own, bool by_speed);
  int num_hosts() const { return static_cast<int>(hosts_.size()); }
  int own_host() const { return own_; }
  int learners_of(int host) const { return hosts_[host].num_learners; }
  int64_t share_of(int host) const { return hosts_[host].share; }
  // The lower bound of all shares.
  int64_t least_share() const { return LeastShare(hosts_.size()); }

  // --- This host; learners are counted from its first one.

  // Derives options that are 0 from the first run, of so many rows. No-op afterwards.
  void Begin(int64_t rows);
  // Keeps sizes and rates: the data decides on the batches.
  void FixSizes() { options_.scales = false; }

  const AdaptiveOptions& options() const {
    return options_;
  }  // none is 0 after Begin()
  int num_learners() const { return hosts_[own_].num_learners; }
  int64_t size(int learner) const { return learners_[first_ + learner].size; }
  // The factor of the optimiser's learning rate.
  double rate(int learner) const { return RateOf(first_ + learner); }
  // The learner whose turn is next, if learners take turns.
  int turn() const { return turn_; }
  void set_turn(int learner) { turn_ = learner; }

  // Records an update from so many rows.
  void RecordUpdate(int learner, int64_t rows);
  // Records a time of training.
  void RecordTraining(int64_t micros) { hosts_[own_].micros += micros; }

  int64_t num_updates() const { return UpdatesOf(own_); }  // in this mega-batch
  int64_t num_rows() const;                                // in this mega-batch
  int64_t rows_left() const;                               // of this host's share
  bool complete() const { return num_updates() > 0 && rows_left() <= 0; }

  // --- All hosts.

  Part part() const;  // this host's
  void SetPart(int host, const Part& part);
  int64_t num_updates_of_all() const;

  // Returns p of all learners. `small`: every replica is.
  std::vector<double> Weights(bool small) const;
  // Returns p of this host's learners.
  std::vector<double> OwnWeights(const std::vector<double>& weights) const;
  // Completes the mega-batch, merged with these weights: scales the sizes and sets the
  // shares of the next one.
  void Next(std::vector<double> weights);
  // Discards the mega-batch and starts another.
  void Abandon();

  // The last mega-batches, oldest first.
  const std::deque<Record>& records() const { return records_; }

  // The state for checkpoints. Set() returns false for values that do not come from
  // Get() with as many learners on each host.
  std::vector<int64_t> Get() const;
  bool Set(const std::vector<int64_t>& saved);

 private:
  // The learner's thread writes `updates` and `rows`.
  struct alignas(64) LearnerState {
    int64_t size = 0;
    int64_t updates = 0;
    int64_t rows = 0;
  };
  struct HostState {
    int first = 0;  // of its learners
    int num_learners = 0;
    int64_t share = 0;
    bool has_data = true;
    int64_t micros = 0;
  };

  double RateOf(int learner) const;
  // Returns the lower bound of the shares of so many hosts with data.
  int64_t LeastShare(size_t hosts) const {
    if (num_hosts() == 1) return options_.mega_batch;
    return std::min(options_.b_max, options_.mega_batch / static_cast<int64_t>(hosts));
  }
  int64_t UpdatesOf(int host) const;
  // Returns the learners to which the rules apply, ascending.
  std::vector<int> Counted() const;
  void ScaleSizes();
  void ShareOut();

  AdaptiveOptions options_;
  bool open_;  // until Begin() has derived the options
  std::vector<LearnerState> learners_;
  std::vector<HostState> hosts_;
  int own_ = 0;    // host
  int first_ = 0;  // of its learners
  bool by_speed_ = false;
  int turn_ = 0;
  std::deque<Record> records_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_MEGA_BATCHES_H_
