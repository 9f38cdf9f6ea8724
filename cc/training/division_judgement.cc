#include "cc/training/division_judgement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Rows given twice are summed in another order; the moments of a batch amplify what
// rounding makes of that, layer by layer.
constexpr double kAmplified = 10, kAmplifiedByMoments = 100;

// Where a program has converged, shards' gradients nearly cancel, and what is left of
// them is as rounded as they are: it counts as if it were at least this share of them.
constexpr double kLeastLeft = 0.01;

// How well a combination of values agrees with another value.
struct Agreement {
  double error = 0;   // ‖combination − value‖ ÷ ‖value‖, or what kLeastLeft says
  double cosine = 0;  // of the angle between them
  double length = 0;  // ‖combination‖ ÷ ‖value‖
};

// Of Σ weights[k] · value number 1 + k with the value number `target`.
Agreement Agree(const Products& products, const std::vector<double>& weights,
                size_t target) {
  double cc = 0, ct = 0, combined = 0;
  const double tt = products[target][target];
  for (size_t k = 0; k < weights.size(); ++k) {
    combined += std::abs(weights[k]) * std::sqrt(products[1 + k][1 + k]);
    ct += weights[k] * products[1 + k][target];
    for (size_t l = 0; l < weights.size(); ++l) {
      cc += weights[k] * weights[l] * products[1 + k][1 + l];
    }
  }
  cc = std::max(0.0, cc);
  Agreement agreement;
  const double lengths = std::sqrt(cc) * std::sqrt(tt);
  agreement.cosine = lengths > 0 ? ct / lengths : 0;
  agreement.length = tt > 0 ? std::sqrt(cc / tt) : INFINITY;
  const double size = std::max(std::sqrt(tt), kLeastLeft * combined);
  agreement.error =
      size > 0 ? std::sqrt(std::max(0.0, cc - 2 * ct + tt)) / size : INFINITY;
  return agreement;
}

// Solves the symmetric system by elimination; nothing if it is singular.
std::vector<double> Solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t j = i + 1; j < n; ++j) {
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    }
    if (std::abs(a[pivot][i]) < 1e-12) return {};
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (size_t j = i + 1; j < n; ++j) {
      const double factor = a[j][i] / a[i][i];
      for (size_t k = i; k < n; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

enum class Grade { kDiffers, kRoughly, kExactly };

class Judge {
 public:
  Judge(const std::vector<GradientProducts>& gradients,
        const std::vector<int64_t>& rows, bool batch_moments)
      : gradients_(gradients), rows_(rows), batch_moments_(batch_moments) {
    const double all =
        static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
    for (int64_t count : rows) mean_.push_back(count / all);
    sum_.assign(rows.size(), 1.0);
    for (const GradientProducts& gradient : gradients) {
      has_twice_ |= gradient.products.size() > 1 + rows.size();
    }
  }

  Judgement Decide() {
    Judgement judgement;
    for (const GradientProducts& gradient : gradients_) {
      for (size_t i = 0; i < gradient.products.size(); ++i) {
        if (std::isfinite(gradient.products[i][i])) continue;
        judgement.why = absl::StrCat("the gradient of variable '", gradient.variable,
                                     "' is not finite");
        return judgement;
      }
    }
    FindNegligible();
    judgement.greatest = greatest_;
    ChooseBest();
    if (best_.empty()) {
      judgement.why = "all gradients are zero";
      return judgement;
    }
    const bool exact_means =
        std::all_of(best_.begin(), best_.end(), [](const auto& named) {
          return named.second.grade == Grade::kExactly && !named.second.sums;
        });
    judgement.needs_twice = !exact_means && !has_twice_;
    Summarise(&judgement);
    return judgement;
  }

 private:
  struct Best {
    int gradient = -1;
    Grade grade = Grade::kDiffers;
    bool sums = false;  // the shards' sum is the whole's, not their mean
    Agreement agreement;
    double twice_error = 0;  // of the rows given twice, if they are needed
  };

  bool IsNegligible(int i) const { return negligible_[i]; }

  void FindNegligible() {
    const auto norm = [](const Products& products, size_t k) {
      return std::sqrt(products[k][k]);
    };
    for (const GradientProducts& gradient : gradients_) {
      greatest_ = std::max(greatest_, norm(gradient.products, 0));
    }
    for (const GradientProducts& gradient : gradients_) {
      double norms = norm(gradient.products, 0);
      for (size_t k = 1; k <= rows_.size(); ++k) {
        norms = std::max(norms, norm(gradient.products, k));
      }
      negligible_.push_back(norms <= kNegligible * greatest_ || greatest_ == 0);
    }
  }

  // Which weights, the same for all gradients, make the shards' values the whole's:
  // those of a mean over what the batch itself weighs.
  std::vector<double> Weights() const {
    const size_t n = rows_.size();
    std::vector<std::vector<double>> a(n, std::vector<double>(n, 0.0));
    std::vector<double> b(n, 0.0);
    for (size_t i = 0; i < gradients_.size(); ++i) {
      const Products& products = gradients_[i].products;
      if (IsNegligible(i) || products[0][0] == 0) continue;
      if (Agree(products, mean_, 0).error <= Rounding(gradients_[i].dtype)) continue;
      for (size_t k = 0; k < n; ++k) {
        b[k] += products[1 + k][0] / products[0][0];
        for (size_t l = 0; l < n; ++l) {
          a[k][l] += products[1 + k][1 + l] / products[0][0];
        }
      }
    }
    const std::vector<double> weights = Solve(a, b);
    if (weights.empty()) return {};
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    const bool positive = std::all_of(weights.begin(), weights.end(),
                                      [](double weight) { return weight >= 0; });
    return positive && std::abs(all - 1) < 0.01 ? weights : std::vector<double>();
  }

  Best GradeOf(int i, const std::vector<double>& weights) const {
    const GradientProducts& gradient = gradients_[i];
    const double rounding = Rounding(gradient.dtype);
    Best best;
    best.gradient = i;
    best.agreement = Agree(gradient.products, mean_, 0);
    if (best.agreement.error <= rounding) {
      best.grade = Grade::kExactly;
      return best;
    }
    const Agreement sum = Agree(gradient.products, sum_, 0);
    const bool sums = sum.error <= rounding;
    if (!has_twice_) {
      best.sums = sums;
      if (sums) best.grade = Grade::kExactly;
      return best;
    }
    // Whether the batch is seen as a set: rows given twice are the same, or twice that.
    const size_t twice = rows_.size() + 1;
    const double loosely =
        (batch_moments_ ? kAmplifiedByMoments : kAmplified) * rounding;
    const double mean_error = Agree(gradient.products, {1.0}, twice).error;
    const double sum_error = Agree(gradient.products, {2.0}, twice).error;
    const bool set_mean = mean_error <= loosely, set_sum = sum_error <= loosely;
    best.twice_error = std::min(mean_error, sum_error);
    if (sums && set_sum) {
      best.grade = Grade::kExactly;
      best.sums = true;
      best.agreement = sum;
    } else if (batch_moments_ && (set_mean || set_sum)) {
      best.grade = Grade::kRoughly;
      best.sums = set_sum;
    } else if (set_mean && !weights.empty() &&
               Agree(gradient.products, weights, 0).error <= loosely &&
               best.agreement.cosine >= kLeastCosine &&
               std::abs(best.agreement.length - 1) <= kLengthTolerance) {
      best.grade = Grade::kRoughly;
    }
    return best;
  }

  void ChooseBest() {
    weights_ = has_twice_ ? Weights() : std::vector<double>();
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (IsNegligible(i)) continue;
      const Best found = GradeOf(i, weights_);
      const auto [known, added] = best_.emplace(gradients_[i].variable, found);
      if (!added && found.grade > known->second.grade) known->second = found;
    }
  }

  void Summarise(Judgement* judgement) const {
    bool differs = false, roughly = false, all_sum = true;
    const Best* worst = nullptr;
    for (const auto& [variable, best] : best_) {
      differs |= best.grade == Grade::kDiffers;
      roughly |= best.grade == Grade::kRoughly;
      all_sum &= best.sums;
      if (best.sums) judgement->sums.push_back(best.gradient);
      if (worst == nullptr || best.grade < worst->grade ||
          (best.grade == worst->grade && best.grade != Grade::kExactly &&
           best.agreement.error > worst->agreement.error)) {  // rounding ranks nothing
        worst = &best;
      }
    }
    judgement->kind = differs          ? Judgement::Kind::kNotSound
                      : !roughly       ? Judgement::Kind::kSound
                      : batch_moments_ ? Judgement::Kind::kBatchMoments
                                       : Judgement::Kind::kNearlySound;
    if (judgement->kind == Judgement::Kind::kNearlySound) judgement->weights = weights_;
    judgement->why = absl::StrFormat(
        "the %s of the gradients of '%s' by %d shards has cosine %.4f and length %.4f "
        "to that by all %d rows",
        worst->sums ? "sum" : "mean", gradients_[worst->gradient].variable,
        rows_.size(), worst->agreement.cosine, worst->agreement.length,
        std::accumulate(rows_.begin(), rows_.end(), int64_t{0}));
    if (has_twice_) {
      double error = 0;
      for (const auto& [variable, best] : best_) {
        error = std::max(error, best.twice_error);
      }
      absl::StrAppend(
          &judgement->why,
          absl::StrFormat("; rows given twice change gradients by %.2g", error));
    }
    judgement->determined = true;
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (best_.count(gradients_[i].variable) > 0) continue;
      judgement->determined = false;
      // What is too small to tell goes with the others, if they agree.
      if (all_sum) judgement->sums.push_back(static_cast<int>(i));
    }
  }

  const std::vector<GradientProducts>& gradients_;
  const std::vector<int64_t>& rows_;
  const bool batch_moments_;
  bool has_twice_ = false;
  std::vector<double> mean_, sum_;  // the shards' weights in either
  std::vector<double> weights_;     // those that the batch gives, or none
  double greatest_ = 0;             // norm of a gradient by all rows
  std::vector<bool> negligible_;    // by gradient
  std::map<std::string, Best> best_;
};

}  // namespace

double Rounding(tf::DataType dtype) {
  switch (dtype) {
    case tf::DT_DOUBLE:
    case tf::DT_COMPLEX128:
      return 1e-6;
    case tf::DT_FLOAT:
    case tf::DT_COMPLEX64:
      return 1e-3;
    case tf::DT_HALF:
    case tf::DT_BFLOAT16:
      return 3e-2;
    default:
      return 0;
  }
}

Judgement JudgeDivision(const std::vector<GradientProducts>& gradients,
                        const std::vector<int64_t>& rows, bool batch_moments) {
  return Judge(gradients, rows, batch_moments).Decide();
}

}  // namespace tensorbow
