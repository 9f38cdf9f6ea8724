#include "cc/synchroniser/algorithms/mega_batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tensorbow {
namespace {

constexpr int64_t kBatchesOfMegaBatch = 100;
constexpr int64_t kSavedOfLearner = 3;

}  // namespace

std::vector<int64_t> DivideRows(int64_t rows, const std::vector<double>& speeds,
                                int64_t least) {
  const size_t count = speeds.size();
  std::vector<double> exact(count);
  std::vector<bool> is_least(count, false);
  // Raising a share to the least lowers the others, which may then need raising.
  for (bool found = true; found;) {
    found = false;
    double left = static_cast<double>(rows), speed = 0;
    for (size_t i = 0; i < count; ++i) {
      is_least[i] ? left -= static_cast<double>(least) : speed += speeds[i];
    }
    for (size_t i = 0; i < count; ++i) {
      exact[i] = is_least[i] ? static_cast<double>(least) : left * (speeds[i] / speed);
      if (is_least[i] || exact[i] >= static_cast<double>(least)) continue;
      is_least[i] = found = true;
    }
  }
  std::vector<int64_t> shares(count);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t left = rows;
  for (size_t i = 0; i < count; ++i) {
    shares[i] = std::max(least, static_cast<int64_t>(exact[i]));
    left -= shares[i];
  }
  // Hosts that have lost most by rounding get the rest.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return exact[a] - static_cast<double>(shares[a]) >
           exact[b] - static_cast<double>(shares[b]);
  });
  for (size_t k = 0; left > 0; ++k, --left) ++shares[order[k % count]];
  for (size_t k = 0; left < 0; ++k) {
    int64_t& share = shares[order[count - 1 - k % count]];
    if (share > least) --share, ++left;
  }
  return shares;
}

MegaBatches::MegaBatches(const AdaptiveOptions& options, int num_learners)
    : options_(options), open_(true), learners_(num_learners), hosts_(1) {
  hosts_[0].num_learners = num_learners;
  if (options_.b_max > 0) Begin(0);
}

void MegaBatches::SetHosts(const std::vector<int>& learners, int own, bool by_speed) {
  hosts_.assign(learners.size(), HostState());
  int first = 0;
  for (size_t h = 0; h < learners.size(); ++h) {
    hosts_[h].first = first;
    hosts_[h].num_learners = learners[h];
    first += learners[h];
  }
  own_ = own;
  first_ = hosts_[own].first;
  learners_.assign(first, LearnerState());
  for (LearnerState& learner : learners_) learner.size = options_.b_max;
  ShareOut();  // no speed is known yet
  by_speed_ = by_speed;
}

void MegaBatches::Begin(int64_t rows) {
  if (!std::exchange(open_, false)) return;
  AdaptiveOptions& o = options_;
  if (o.b_max == 0) {
    o.b_max = std::max<int64_t>(1, (rows + num_learners() - 1) / num_learners());
  }
  if (o.b_min == 0) o.b_min = std::max<int64_t>(1, o.b_max / 8);
  o.b_min = std::min(o.b_min, o.b_max);
  if (o.beta == 0) o.beta = static_cast<double>(o.b_min) / 2;
  if (o.mega_batch == 0) o.mega_batch = kBatchesOfMegaBatch * o.b_max;
  for (LearnerState& learner : learners_) learner.size = o.b_max;
  hosts_[0].share = o.mega_batch;
}

double MegaBatches::RateOf(int learner) const {
  if (open_) return 1;
  return static_cast<double>(learners_[learner].size) /
         static_cast<double>(options_.b_max);
}

void MegaBatches::RecordUpdate(int learner, int64_t rows) {
  ++learners_[first_ + learner].updates;
  learners_[first_ + learner].rows += rows;
}

int64_t MegaBatches::UpdatesOf(int host) const {
  int64_t sum = 0;
  for (int i = 0; i < hosts_[host].num_learners; ++i) {
    sum += learners_[hosts_[host].first + i].updates;
  }
  return sum;
}

int64_t MegaBatches::num_updates_of_all() const {
  int64_t sum = 0;
  for (int h = 0; h < num_hosts(); ++h) sum += UpdatesOf(h);
  return sum;
}

int64_t MegaBatches::num_rows() const {
  int64_t rows = 0;
  for (int i = 0; i < num_learners(); ++i) rows += learners_[first_ + i].rows;
  return rows;
}

int64_t MegaBatches::rows_left() const { return hosts_[own_].share - num_rows(); }

MegaBatches::Part MegaBatches::part() const {
  Part part;
  part.fixes_sizes = !options_.scales;
  part.micros = hosts_[own_].micros;
  for (int i = 0; i < num_learners(); ++i) {
    part.updates.push_back(learners_[first_ + i].updates);
    part.rows.push_back(learners_[first_ + i].rows);
  }
  return part;
}

void MegaBatches::SetPart(int host, const Part& part) {
  HostState& state = hosts_[host];
  state.has_data = part.has_data;
  state.micros = part.micros;
  if (part.fixes_sizes) FixSizes();
  for (int i = 0; i < state.num_learners; ++i) {
    learners_[state.first + i].updates = part.updates[i];
    learners_[state.first + i].rows = part.rows[i];
  }
}

std::vector<int> MegaBatches::Counted() const {
  std::vector<int> counted;
  for (int h = 0; h < num_hosts(); ++h) {
    if (num_hosts() > 1 && UpdatesOf(h) == 0) continue;
    for (int i = 0; i < hosts_[h].num_learners; ++i) {
      counted.push_back(hosts_[h].first + i);
    }
  }
  return counted;
}

std::vector<double> MegaBatches::Weights(bool small) const {
  std::vector<double> weights(learners_.size(), 0);
  const std::vector<int> counted = Counted();
  if (!options_.normalises) {
    for (int i : counted) weights[i] = 1.0 / static_cast<double>(counted.size());
    return weights;
  }
  const auto fewer = [this](int a, int b) {
    return learners_[a].updates < learners_[b].updates;
  };
  // The first of equals, as by the paper's argmax and argmin.
  const int most = *std::max_element(counted.begin(), counted.end(), fewer);
  const int fewest = *std::min_element(counted.begin(), counted.end(), fewer);
  const bool equal = learners_[fewest].updates == learners_[most].updates;
  double sum = 0;
  for (int i : counted) {
    weights[i] = static_cast<double>(equal ? learners_[i].size : learners_[i].updates);
    sum += weights[i];
  }
  for (double& weight : weights) weight /= sum;
  if (small && !equal && learners_[fewest].updates > 0) {
    weights[most] *= 1 + options_.perturbation;
    weights[fewest] *= 1 - options_.perturbation;
  }
  return weights;
}

std::vector<double> MegaBatches::OwnWeights(const std::vector<double>& weights) const {
  return {weights.begin() + first_, weights.begin() + first_ + num_learners()};
}

void MegaBatches::Next(std::vector<double> weights) {
  Record record;
  for (size_t i = 0; i < learners_.size(); ++i) {
    record.sizes.push_back(learners_[i].size);
    record.rates.push_back(RateOf(static_cast<int>(i)));
    record.updates.push_back(learners_[i].updates);
    record.rows.push_back(learners_[i].rows);
  }
  record.weights = std::move(weights);
  records_.push_back(std::move(record));
  if (static_cast<int64_t>(records_.size()) > kMostRecords) records_.pop_front();
  if (options_.scales) ScaleSizes();
  ShareOut();
  Abandon();
}

void MegaBatches::ScaleSizes() {
  const std::vector<int> counted = Counted();
  const double mean =
      static_cast<double>(num_updates_of_all()) / static_cast<double>(counted.size());
  for (int i : counted) {
    LearnerState& learner = learners_[i];
    const double scaled = static_cast<double>(learner.size) +
                          options_.beta * (static_cast<double>(learner.updates) - mean);
    if (scaled <= static_cast<double>(options_.b_max) &&
        scaled >= static_cast<double>(options_.b_min)) {
      learner.size = std::llround(scaled);
    }
  }
}

void MegaBatches::ShareOut() {
  if (num_hosts() == 1) return;
  std::vector<HostState*> with_data;
  std::vector<double> speeds;
  for (HostState& host : hosts_) {
    if (!host.has_data) continue;
    with_data.push_back(&host);
    int64_t rows = 0;
    for (int i = 0; i < host.num_learners; ++i) rows += learners_[host.first + i].rows;
    const double seconds = std::max(1.0, static_cast<double>(host.micros));
    speeds.push_back(by_speed_ ? static_cast<double>(rows) / seconds
                               : static_cast<double>(host.num_learners));
  }
  if (with_data.empty()) return;
  const std::vector<int64_t> shares =
      DivideRows(options_.mega_batch, speeds, LeastShare(with_data.size()));
  for (size_t i = 0; i < with_data.size(); ++i) with_data[i]->share = shares[i];
}

void MegaBatches::Abandon() {
  for (LearnerState& learner : learners_) learner.updates = learner.rows = 0;
  for (HostState& host : hosts_) {
    host.micros = 0;
    host.has_data = true;
  }
}

// The format: size, updates and rows of each learner of all hosts; b_max; the learner
// whose turn is next; learners and share of each host.
std::vector<int64_t> MegaBatches::Get() const {
  std::vector<int64_t> saved;
  for (const LearnerState& learner : learners_) {
    saved.insert(saved.end(), {learner.size, learner.updates, learner.rows});
  }
  saved.insert(saved.end(), {open_ ? 0 : options_.b_max, turn_});
  for (const HostState& host : hosts_) {
    saved.insert(saved.end(), {host.num_learners, host.share});
  }
  return saved;
}

bool MegaBatches::Set(const std::vector<int64_t>& saved) {
  const size_t sizes = kSavedOfLearner * learners_.size();
  // States from before learners took turns end with b_max.
  const bool short_form = num_hosts() == 1 && saved.size() == sizes + 1;
  if (!short_form && saved.size() != sizes + 2 + 2 * hosts_.size()) return false;
  for (int64_t value : saved) {
    if (value < 0) return false;
  }
  const int64_t b_max = saved[sizes];
  if (b_max == 0) return true;  // saved before the first run
  if (open_) {
    options_.b_max = b_max;
    Begin(0);
  }
  if (b_max != options_.b_max) return false;
  for (size_t i = 0; i < learners_.size(); ++i) {
    const int64_t size = saved[kSavedOfLearner * i];
    if (size < options_.b_min || size > b_max) return false;
  }
  for (size_t h = 0; !short_form && h < hosts_.size(); ++h) {
    const int64_t* const host = &saved[sizes + 2 + 2 * h];
    if (host[0] != hosts_[h].num_learners) return false;
    if (host[1] < least_share() || host[1] > options_.mega_batch) return false;
  }
  if (!short_form && saved[sizes + 1] >= num_learners()) return false;
  for (size_t i = 0; i < learners_.size(); ++i) {
    const int64_t* const learner = &saved[kSavedOfLearner * i];
    learners_[i].size = learner[0];
    learners_[i].updates = learner[1];
    learners_[i].rows = learner[2];
  }
  turn_ = short_form ? 0 : static_cast<int>(saved[sizes + 1]);
  for (size_t h = 0; !short_form && h < hosts_.size(); ++h) {
    hosts_[h].share = saved[sizes + 2 + 2 * h + 1];
  }
  return true;
}

}  // namespace tensorbow
