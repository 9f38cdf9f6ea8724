// How DivisionProof judges what it has evaluated.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cc/training/division_evidence.h"
#include "cc/training/division_proof.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// By how much the part of a denominator that a shard has may differ from the weight of
// that shard in the gradients.
constexpr double kWeightTolerance = 0.005;

using Values = std::vector<tf::Tensor>;  // by all rows first, then by each shard

double Magnitude(const tf::Tensor& scalar) {
  return std::sqrt(InnerProducts({scalar})[0][0]);
}

// Why learners cannot make what all rows make of it.
std::string WhyNotTogether(const StateChange& change) {
  constexpr char kNeither[] = "is neither the mean nor the sum of what shards compute";
  std::string why;
  if (change.is_rate) {
    why = absl::StrCat(
        "it computes, from its rows, what an optimiser takes beside the "
        "gradient: '",
        change.tensor, "' ", kNeither);
  } else {
    why = absl::StrCat(
        "it writes, from its rows, state that is not trained: what is "
        "written to '",
        change.variable, "' ",
        change.in_rows ? "goes to rows of it that the batch names" : kNeither);
  }
  return why;
}

// Whether a total is so small, by all rows or some, that its denominator is the
// constant that keeps it from being smaller.
bool IsHeld(const Values& denominators, const Values& totals) {
  constexpr double kOther = 0.01;
  for (size_t k = 0; k < totals.size(); ++k) {
    const double value = Magnitude(denominators[k]);
    if (std::abs(value - Magnitude(totals[k])) > kOther * value) return true;
  }
  return false;
}

// Whether the shards' values add up to that by all rows.
bool AddsUp(const Values& values, const std::vector<int64_t>& rows) {
  const Values shards(values.begin() + 1, values.end());
  return Magnitude(values[0]) > 0 &&
         CompareFetch(values[0], shards, rows, /*depends=*/true).rule ==
             Combination::kSum;
}

// Whether they do, with these weights.
bool AddsUpBy(const Values& values, const std::vector<double>& weights,
              const std::vector<int64_t>& rows) {
  if (weights.empty() || !AddsUp(values, rows)) return false;
  const double all = Magnitude(values[0]);
  const Values shards(values.begin() + 1, values.end());
  for (size_t k = 0; k < shards.size(); ++k) {
    if (std::abs(Magnitude(shards[k]) / all - weights[k]) > kWeightTolerance) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<tf::Tensor> DivisionProof::Gradients(
    int source, const std::vector<const Evaluation*>& evaluations) const {
  const auto shape = shapes_.find(sources_[source].variable);
  const Evaluation::Gradient& first = evaluations[0]->gradients[source];
  std::vector<tf::Tensor> values, indices;
  for (const Evaluation* evaluation : evaluations) {
    const Evaluation::Gradient& gradient = evaluation->gradients[source];
    values.push_back(gradient.values);
    if (places_[source].indices >= 0) {
      indices.push_back(gradient.indices);
    } else if (gradient.size < 0 || gradient.size != first.size ||
               (shape != shapes_.end() &&
                gradient.size != shape->second.num_elements())) {
      return {};
    }
  }
  return indices.empty() ? values : Densified(values, indices);
}

bool DivisionProof::JudgeGradients(const Evaluations& evaluations, bool own_moments,
                                   Verdict* verdict) const {
  std::vector<const Evaluation*> all = {&evaluations.whole};
  for (const Evaluation& shard : evaluations.shards) all.push_back(&shard);
  if (evaluations.twice.has_value()) all.push_back(&*evaluations.twice);
  std::vector<GradientProducts> gradients;
  std::vector<int> source_of;  // by gradient
  for (size_t i = 0; i < sources_.size(); ++i) {
    const std::vector<tf::Tensor> values = Gradients(i, all);
    if (values.empty()) continue;
    gradients.push_back({sources_[i].variable, evaluations.whole.gradients[i].dtype,
                         InnerProducts(values)});
    source_of.push_back(i);
  }
  const Judgement judgement = JudgeDivision(gradients, evaluations.rows, own_moments);
  verdict->kind = judgement.kind;
  verdict->why = judgement.why;
  verdict->determined = judgement.determined;
  verdict->greatest = judgement.greatest;
  verdict->weights = judgement.weights;
  verdict->adjustments.sums.clear();
  if (judgement.needs_twice || !verdict->divides()) return judgement.needs_twice;
  std::set<int> sums;
  for (int gradient : judgement.sums) sums.insert(source_of[gradient]);
  for (int source : sums) {
    verdict->adjustments.sums.insert(sources_[source].tensor);
    if (!sources_[source].is_value) continue;
    verdict->kind = Verdict::Kind::kNotSound;
    verdict->why = absl::StrCat("the loss sums over rows, and the new value of '",
                                sources_[source].variable, "' cannot be scaled");
  }
  // Nor can a tensor that is a sum for one variable and a mean for another.
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sums.count(i) > 0 || verdict->adjustments.sums.count(sources_[i].tensor) == 0) {
      continue;
    }
    verdict->kind = Verdict::Kind::kNotSound;
    verdict->why = absl::StrCat("'", sources_[i].tensor,
                                "' is a sum over rows for some variables only");
  }
  return false;
}

FetchEvidence DivisionProof::CompareValues(
    const Evaluations& evaluations, Verdict::Kind kind,
    const std::function<tf::Tensor(const Evaluation&)>& value, bool depends,
    bool may_be_mean) const {
  // Where the batch is seen as a whole, values differ that are of the same kind; those
  // of rows given twice do not, but neither do those of a maximum or a root.
  const bool twice = evaluations.twice.has_value() && kind != Verdict::Kind::kSound;
  const std::vector<int64_t> rows =
      twice ? std::vector<int64_t>(2, evaluations.rows[0]) : evaluations.rows;
  Values shards;
  for (const Evaluation& shard : evaluations.shards) shards.push_back(value(shard));
  if (twice) shards.assign(2, value(evaluations.shards[0]));
  const Evaluation& whole = twice ? *evaluations.twice : evaluations.whole;
  FetchEvidence evidence = CompareFetch(value(whole), shards, rows, depends);
  if (!depends || evidence.rule == Combination::kConcat) return evidence;
  // Shards that are given the moments of all rows have nearly equal values.
  if ((twice || batch_moments_) && !may_be_mean) evidence.rule.reset();
  // Another batch may tell that these are alike by chance.
  if (!may_be_mean || evidence.rule == Combination::kFirst) evidence.determined = false;
  return evidence;
}

void DivisionProof::JudgeFetches(const Evaluations& evaluations,
                                 Verdict* verdict) const {
  for (size_t i = 0; i < fetches_.size(); ++i) {
    if (fetches_[i] < 0) continue;
    const FetchEvidence evidence = CompareValues(
        evaluations, verdict->kind, [i](const Evaluation& e) { return e.fetches[i]; },
        depends_[i], fetches_may_be_means_[i]);
    verdict->determined &= evidence.determined || !evidence.rule.has_value();
    verdict->fetches[i] = evidence.rule;
    if (!evidence.rule.has_value()) {
      verdict->fetches[i] = Combination::kFirst;
      verdict->uncombined.push_back(static_cast<int>(i));
    }
  }
}

bool DivisionProof::DenominatorsAddUp(const Evaluations& evaluations) const {
  if (exchanged_.empty() || evaluations.shards.size() < 2) return false;
  size_t i = 0;
  for (const auto& [tensor, denominator] : denominators_) {
    const Values values = evaluations.Of(&Evaluation::denominators, i);
    const Values totals = evaluations.Of(&Evaluation::totals, i);
    ++i;
    if (exchanged_.count(tensor) == 0) continue;
    const bool has_total = totals[0].NumElements() == 1;
    if (values[0].NumElements() != 1 || (has_total && IsHeld(values, totals)) ||
        !AddsUp(has_total ? totals : values, evaluations.rows)) {
      return false;
    }
  }
  return true;
}

void DivisionProof::JudgeDenominators(const Evaluations& evaluations, bool given,
                                      Verdict* verdict) const {
  // Where weights are as the rows are, another batch may have others.
  std::vector<double> weights = verdict->weights;
  if (verdict->kind == Verdict::Kind::kSound && verdict->adjustments.sums.empty()) {
    const double all =
        std::accumulate(evaluations.rows.begin(), evaluations.rows.end(), int64_t{0});
    for (int64_t rows : evaluations.rows) weights.push_back(rows / all);
  }
  bool together = false;
  size_t i = 0;
  for (const auto& [tensor, denominator] : denominators_) {
    const Values values = evaluations.Of(&Evaluation::denominators, i);
    const Values totals = evaluations.Of(&Evaluation::totals, i);
    ++i;
    if (values[0].NumElements() != 1) continue;
    const bool has_total = totals[0].NumElements() == 1;
    if (has_total && IsHeld(values, totals)) {
      // What it is by other batches is not to be seen by this one.
      verdict->inexact = true;
      verdict->determined = false;
      continue;
    }
    const bool given_now = given && exchanged_.count(tensor) > 0;
    if (!given_now &&
        !AddsUpBy(has_total ? totals : values, weights, evaluations.rows)) {
      continue;
    }
    together = true;
    Meetings& meetings = verdict->adjustments.meetings;
    Meeting& shared = meetings[tensor];
    shared.how = has_total ? Meeting::How::kShare : Meeting::How::kPart;
    shared.must = true;
    shared.users = denominator.users;
    if (!has_total) continue;
    Meeting& total = meetings[denominator.total];
    total.how = Meeting::How::kSum;
    total.must = true;
    total.users.insert(denominator.total_user);
  }
  // With 16 bits rounding is told from weights by large differences only.
  verdict->inexact |=
      verdict->kind == Verdict::Kind::kNearlySound && !together && !has_16_bits_;
}

void DivisionProof::JudgeStates(const Evaluations& evaluations,
                                Verdict* verdict) const {
  for (size_t i = 0; i < states_.size(); ++i) {
    const StateChange& change = state_changes_[i];
    if (states_[i] < 0 && !change.in_rows) continue;  // it stays each learner's own
    std::optional<Combination> rule;
    if (states_[i] >= 0) {
      const FetchEvidence evidence = CompareValues(
          evaluations, verdict->kind, [i](const Evaluation& e) { return e.states[i]; },
          /*depends=*/true, /*may_be_mean=*/true);
      const bool by_chance = evidence.rule.has_value() &&
                             evidence.rule != Combination::kFirst &&
                             !states_may_be_means_[i];
      if (!by_chance) {
        verdict->determined &= evidence.determined || !evidence.rule.has_value();
        if (evidence.rule.has_value() && !evidence.determined) continue;
        rule = evidence.rule;
      }
    }
    if (rule == Combination::kFirst) continue;  // the same by any rows
    const bool sum = rule == Combination::kSum && !change.replaces;
    if (!sum && rule != Combination::kMean) {
      verdict->states_differ = WhyNotTogether(change);
      return;
    }
    Meeting& meeting = verdict->adjustments.meetings[change.tensor];
    meeting.how = sum ? Meeting::How::kSum : Meeting::How::kMean;
    meeting.must = true;
    meeting.users.insert(change.user);
  }
}

}  // namespace tensorbow
