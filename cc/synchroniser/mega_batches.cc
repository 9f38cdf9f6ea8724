#include "cc/synchroniser/mega_batches.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tensorbow {
namespace {

constexpr int64_t kBatchesOfMegaBatch = 100;

}  // namespace

MegaBatches::MegaBatches(const AdaptiveOptions& options, int num_learners)
    : options_(options), open_(true), learners_(num_learners) {
  if (options_.b_max > 0) Begin(0);
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
}

double MegaBatches::rate(int learner) const {
  if (open_) return 1;
  return static_cast<double>(size(learner)) / static_cast<double>(options_.b_max);
}

void MegaBatches::NoteUpdate(int learner, int64_t rows) {
  ++learners_[learner].updates;
  learners_[learner].rows += rows;
}

int64_t MegaBatches::num_updates() const {
  int64_t sum = 0;
  for (const LearnerState& learner : learners_) sum += learner.updates;
  return sum;
}

int64_t MegaBatches::rows_left() const {
  int64_t rows = options_.mega_batch;
  for (const LearnerState& learner : learners_) rows -= learner.rows;
  return rows;
}

bool MegaBatches::every_learner_has_updated() const {
  return std::all_of(learners_.begin(), learners_.end(),
                     [](const LearnerState& learner) { return learner.updates > 0; });
}

std::vector<double> MegaBatches::Weights(bool perturbs) const {
  if (!options_.normalises) {
    return std::vector<double>(num_learners(), 1.0 / num_learners());
  }
  const auto fewer = [](const LearnerState& a, const LearnerState& b) {
    return a.updates < b.updates;
  };
  const auto [fewest, most] =
      std::minmax_element(learners_.begin(), learners_.end(), fewer);
  const bool equal = fewest->updates == most->updates;
  double sum = 0;
  std::vector<double> weights;
  for (const LearnerState& learner : learners_) {
    weights.push_back(static_cast<double>(equal ? learner.size : learner.updates));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  if (perturbs && !equal && every_learner_has_updated()) {
    // Of several the first, as in the paper's argmax and argmin.
    const auto first_most = std::max_element(learners_.begin(), learners_.end(), fewer);
    weights[first_most - learners_.begin()] *= 1 + options_.perturbation;
    weights[fewest - learners_.begin()] *= 1 - options_.perturbation;
  }
  return weights;
}

void MegaBatches::Next(std::vector<double> weights) {
  Record record;
  for (int i = 0; i < num_learners(); ++i) {
    record.sizes.push_back(size(i));
    record.rates.push_back(rate(i));
    record.updates.push_back(learners_[i].updates);
    record.rows.push_back(learners_[i].rows);
  }
  record.weights = std::move(weights);
  records_.push_back(std::move(record));
  if (static_cast<int64_t>(records_.size()) > kMostRecords) records_.pop_front();

  const double mean = static_cast<double>(num_updates()) / num_learners();
  for (LearnerState& learner : learners_) {
    if (!options_.scales) break;
    const double scaled = static_cast<double>(learner.size) +
                          options_.beta * (static_cast<double>(learner.updates) - mean);
    if (scaled <= static_cast<double>(options_.b_max) &&
        scaled >= static_cast<double>(options_.b_min)) {
      learner.size = std::llround(scaled);
    }
  }
  Abandon();
}

void MegaBatches::Abandon() {
  for (LearnerState& learner : learners_) learner.updates = learner.rows = 0;
}

std::vector<int64_t> MegaBatches::Get() const {
  std::vector<int64_t> saved;
  for (const LearnerState& learner : learners_) {
    saved.insert(saved.end(), {learner.size, learner.updates, learner.rows});
  }
  saved.push_back(open_ ? 0 : options_.b_max);
  return saved;
}

bool MegaBatches::Set(const std::vector<int64_t>& saved) {
  if (static_cast<int64_t>(saved.size()) != NumSaved(num_learners())) return false;
  for (int64_t value : saved) {
    if (value < 0) return false;
  }
  const int64_t b_max = saved.back();
  if (b_max == 0) return true;  // nothing had begun
  if (open_) {
    options_.b_max = b_max;
    Begin(0);
  }
  if (b_max != options_.b_max) return false;
  for (size_t i = 0; i < learners_.size(); ++i) {
    const int64_t size = saved[3 * i];
    if (size < options_.b_min || size > b_max) return false;
    learners_[i].size = size;
    learners_[i].updates = saved[3 * i + 1];
    learners_[i].rows = saved[3 * i + 2];
  }
  return true;
}

}  // namespace tensorbow
