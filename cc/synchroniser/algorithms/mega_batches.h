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
// The learners may be those of several hosts, in host order. Then every host has a
// share of the mega-batch, which it trains on by itself; a host whose learners have
// made no update, since it has no data, has no part in the rules above. After a
// mega-batch
//
//   shares    of the hosts that have data: the mega-batch in proportion to their speed,
//             rows over seconds of training, or to their learners; at least b_max rows
//             (an equal share, if that is less) each; of the others as they are
//
// All hosts know the same and so choose the same (host_merges.h).
//
// NoteUpdate() may be called concurrently by different learners, everything else while
// no learner is at work.
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

// `rows` in proportion to `speeds`, of which one at least is greater than 0, as
// integers that add up to it and are at least `least`. REQUIRES: rows >= least * their
// number.
std::vector<int64_t> DivideRows(int64_t rows, const std::vector<double>& speeds,
                                int64_t least);

class MegaBatches {
 public:
  // What has become of a mega-batch; by learner, of all hosts.
  struct Record {
    std::vector<int64_t> sizes;    // b_i
    std::vector<double> rates;     // b_i / b_max
    std::vector<int64_t> updates;  // u_i
    std::vector<int64_t> rows;     // trained on
    std::vector<double> weights;   // p_i
  };
  // What a host has done of it.
  struct Part {
    bool has_data = true;
    bool fixes_sizes = false;
    int64_t micros = 0;                  // of training
    std::vector<int64_t> updates, rows;  // by learner
  };
  static constexpr int64_t kMostRecords = 1000;

  MegaBatches(const AdaptiveOptions& options, int num_learners);

  // So many learners on each host, of which this is number `own`. `by_speed`: what
  // shares follow. REQUIRES: a b_max; nothing has been trained.
  void SetHosts(const std::vector<int>& learners, int own, bool by_speed);
  int num_hosts() const { return static_cast<int>(hosts_.size()); }
  int own_host() const { return own_; }
  int learners_of(int host) const { return hosts_[host].num_learners; }
  int64_t share_of(int host) const { return hosts_[host].share; }
  // No host's is ever less.
  int64_t least_share() const { return LeastShare(hosts_.size()); }

  // --- This host's; learners are counted from its first one.

  // What the options leave open follows from the first run, of so many rows. No-op
  // afterwards.
  void Begin(int64_t rows);
  // Batches are what the data makes them: sizes and rates stay as they are.
  void FixSizes() { options_.scales = false; }

  const AdaptiveOptions& options() const {
    return options_;
  }  // none open after Begin()
  int num_learners() const { return hosts_[own_].num_learners; }
  int64_t size(int learner) const { return learners_[first_ + learner].size; }
  // What the optimiser's learning rate is multiplied by.
  double rate(int learner) const { return RateOf(first_ + learner); }
  // Whose turn is next, where learners take turns.
  int turn() const { return turn_; }
  void set_turn(int learner) { turn_ = learner; }

  // The learner has made an update from so many rows.
  void NoteUpdate(int learner, int64_t rows);
  // The learners have trained for so long.
  void NoteTraining(int64_t micros) { hosts_[own_].micros += micros; }

  int64_t num_updates() const { return UpdatesOf(own_); }  // in this mega-batch
  int64_t num_rows() const;                                // likewise
  int64_t rows_left() const;                               // of this host's share
  bool complete() const { return num_updates() > 0 && rows_left() <= 0; }

  // --- All hosts'.

  Part part() const;  // this host's
  void SetPart(int host, const Part& part);
  int64_t num_updates_of_all() const;

  // p. `small`: every replica is.
  std::vector<double> Weights(bool small) const;
  // p of this host's learners.
  std::vector<double> OwnWeights(const std::vector<double>& weights) const;
  // The mega-batch is complete, merged with these weights: scales the sizes for the
  // next one, and shares it out.
  void Next(std::vector<double> weights);
  // The mega-batch does not count: another begins.
  void Abandon();

  // The last mega-batches, oldest first.
  const std::deque<Record>& records() const { return records_; }

  // What is saved of it. Set() returns false for what Get() cannot have given with as
  // many learners on each host.
  std::vector<int64_t> Get() const;
  bool Set(const std::vector<int64_t>& saved);

 private:
  // `updates` and `rows` are written by the learner's thread.
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
  // Of so many hosts that have data.
  int64_t LeastShare(size_t hosts) const {
    if (num_hosts() == 1) return options_.mega_batch;
    return std::min(options_.b_max, options_.mega_batch / static_cast<int64_t>(hosts));
  }
  int64_t UpdatesOf(int host) const;
  // The learners that the rules are about, ascending.
  std::vector<int> Counted() const;
  void ScaleSizes();
  void ShareOut();

  AdaptiveOptions options_;
  bool open_;  // Begin() has something to choose
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
