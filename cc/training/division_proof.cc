#include "cc/training/division_proof.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cc/support/freed_memory.h"
#include "cc/training/division_evidence.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// What an error says, without where in the graph it is.
std::string FirstLine(const absl::Status& status) {
  const std::string message(status.message());
  return message.substr(0, message.find('\n'));
}

// The shards of `rows` rows.
std::vector<FeedPlan::Rows> Shards(int64_t rows, int64_t count) {
  std::vector<FeedPlan::Rows> shards;
  count = std::min(rows, count);
  for (int64_t k = 0, begin = 0; k < count; ++k) {
    const int64_t end = begin + rows / count + (k < rows % count ? 1 : 0);
    shards.push_back({begin, end});
    begin = end;
  }
  return shards;
}

}  // namespace

absl::StatusOr<const CentralEvaluation*> DivisionProof::Compile(
    const LearnerGroup& learners, Given given) {
  const bool all = given == Given::kMomentsAndDenominators;
  std::unique_ptr<CentralEvaluation>& compiled = all ? with_all_
                                                 : given == Given::kNothing
                                                     ? with_nothing_
                                                     : with_moments_;
  if (compiled != nullptr) return compiled.get();
  RunSpec spec;
  spec.feeds = graph_.feeds;
  spec.fetches = graph_.fetches;
  for (const ProofGraph::Exchange& exchange : graph_.exchanges) {
    if (given == Given::kNothing) {
      spec.fetches.push_back(exchange.tensor);
    } else if (all || !exchange.is_denominator) {
      spec.feeds.push_back(exchange.tensor);
    }
  }
  TF_ASSIGN_OR_RETURN(compiled, learners.NewEvaluation(*graph_.graph, spec));
  return compiled.get();
}

void DivisionProof::Release() {
  with_nothing_.reset();
  with_moments_.reset();
  with_all_.reset();
}

absl::StatusOr<DivisionProof::Evaluation> DivisionProof::Evaluate(
    const Request& request, Values feeds, int64_t count, Given given,
    const Evaluation* whole) {
  feeds.push_back(tf::Tensor(static_cast<float>(request.how_far)));
  const bool all = given == Given::kMomentsAndDenominators;
  const double part = static_cast<double>(count) / request.count;
  for (size_t i = 0; i < graph_.exchanges.size() && given != Given::kNothing; ++i) {
    const ProofGraph::Exchange& exchange = graph_.exchanges[i];
    if (exchange.is_denominator && !all) continue;
    const bool is_part =
        exchange.is_denominator || (exchange.is_part && given == Given::kMomentsByPart);
    const tf::Tensor& value = whole->exchanges[i];
    feeds.push_back(is_part ? Times(part, value) : value);
  }
  TF_ASSIGN_OR_RETURN(const CentralEvaluation* const compiled,
                      Compile(request.learners, given));
  Values values;
  TF_RETURN_IF_ERROR(compiled->Run(feeds, &values));
  Evaluation evaluation = Digest(values);
  int64_t bytes = 0;
  for (const tf::Tensor& value : values) bytes += value.TotalBytes();
  values.clear();
  ReturnFreedMemory(bytes);
  return evaluation;
}

DivisionProof::Evaluation DivisionProof::Digest(const Values& values) const {
  Evaluation evaluation;
  for (const Places& places : places_) {
    const tf::Tensor& value = values[places.tensor];
    Evaluation::Gradient gradient = {value.dtype(), value.NumElements(), value, {}};
    if (places.indices >= 0) {
      gradient.indices = values[places.indices];
    } else if (places.variable < 0) {
      gradient.values = Sketched(value);
    } else if (const auto change = Change(value, values[places.variable])) {
      gradient.values = Sketched(*change);
    } else {
      gradient.size = -1;
    }
    evaluation.gradients.push_back(std::move(gradient));
  }
  const auto value_at = [&values](int at) {
    return at < 0 ? tf::Tensor() : values[at];
  };
  for (int at : fetches_) evaluation.fetches.push_back(value_at(at));
  for (int at : states_) evaluation.states.push_back(value_at(at));
  const auto scalars_at = [&value_at](const std::vector<int>& places) {
    Values scalars;
    for (int at : places) {
      const tf::Tensor value = value_at(at);
      const bool scalar =
          value.NumElements() == 1 && tf::DataTypeIsFloating(value.dtype());
      scalars.push_back(scalar ? value : tf::Tensor());
    }
    return scalars;
  };
  evaluation.denominators = scalars_at(at_denominators_);
  evaluation.totals = scalars_at(at_totals_);
  evaluation.exchanges.assign(values.begin() + graph_.fetches.size(), values.end());
  return evaluation;
}

void DivisionProof::EvaluateShards(const Request& request, Given given,
                                   Evaluations* evaluations, Verdict* verdict) {
  const Evaluation* const whole = &evaluations->whole;
  evaluations->shards.clear();
  evaluations->rows.clear();
  evaluations->twice.reset();
  for (const FeedPlan::Rows& shard : request.shards) {
    auto values = Evaluate(request, FeedsOfTask(request.plan, shard, request.feeds),
                           shard.count(), given, whole);
    if (!values.ok()) {
      verdict->kind = Verdict::Kind::kNotSound;
      verdict->why = absl::StrCat("with ", shard.count(), " of the ", request.count,
                                  " rows it fails: ", FirstLine(values.status()));
      verdict->determined = true;
      return;
    }
    evaluations->shards.push_back(*std::move(values));
    evaluations->rows.push_back(shard.count());
  }
  const bool own_moments = batch_moments_ && given == Given::kNothing;
  if (!JudgeGradients(*evaluations, own_moments, verdict)) return;
  const FeedPlan::Rows& first = request.shards[0];
  const auto evaluate_twice = [&]() -> absl::StatusOr<Evaluation> {
    TF_ASSIGN_OR_RETURN(
        Values twice,
        FeedsTwice(request.plan, FeedsOfTask(request.plan, first, request.feeds)));
    return Evaluate(request, std::move(twice), 2 * first.count(), given, whole);
  };
  absl::StatusOr<Evaluation> values = evaluate_twice();
  if (values.ok()) {
    evaluations->twice = *std::move(values);
    JudgeGradients(*evaluations, own_moments, verdict);
  } else {
    verdict->kind = Verdict::Kind::kNotSound;
    absl::StrAppend(&verdict->why,
                    ", and rows cannot be given twice: ", FirstLine(values.status()));
  }
}

absl::StatusOr<Verdict> DivisionProof::Prove(const LearnerGroup& learners,
                                             const std::vector<tf::Tensor>& feeds,
                                             const FeedPlan& plan,
                                             const ProofOptions& options) {
  int64_t count = RowsOfFeeds(plan, feeds);
  if (options.most_rows > 0) count = std::min(count, options.most_rows);
  const Request request = {
      learners, feeds, plan, Shards(count, options.num_shards), count, options.how_far};

  Evaluations evaluations;
  TF_ASSIGN_OR_RETURN(
      evaluations.whole,
      Evaluate(request, FeedsOfTask(plan, FeedPlan::Rows{0, count}, feeds), count,
               Given::kNothing, nullptr));
  Verdict verdict;
  verdict.fetches.resize(fetches_.size());
  std::string coupled;
  Given given = GivenForSoundness(request, &evaluations, &verdict, &coupled);
  if (given == Given::kNothing) EvaluateShards(request, given, &evaluations, &verdict);
  if (verdict.divides()) {
    JudgeFetches(evaluations, &verdict);
    JudgeDenominators(evaluations, given == Given::kMomentsAndDenominators, &verdict);
    JudgeStates(evaluations, &verdict);
  }
  if (given != Given::kNothing && verdict.kind == Verdict::Kind::kSound) {
    verdict.kind = Verdict::Kind::kBatchMoments;
  } else if (verdict.kind == Verdict::Kind::kBatchMoments && !has_16_bits_) {
    verdict.coupled = coupled;
  }
  return verdict;
}

DivisionProof::Given DivisionProof::GivenForSoundness(const Request& request,
                                                      Evaluations* evaluations,
                                                      Verdict* verdict,
                                                      std::string* coupled) {
  const Values& values = evaluations->whole.exchanges;
  const bool scalable =
      std::all_of(values.begin(), values.end(), [](const tf::Tensor& value) {
        return value.dtype() == tf::DT_FLOAT || value.dtype() == tf::DT_DOUBLE;
      });
  if (values.empty() || !scalable) return Given::kNothing;
  for (Given given :
       {Given::kMoments, Given::kMomentsByPart, Given::kMomentsAndDenominators}) {
    if (given == Given::kMomentsAndDenominators && !DenominatorsAddUp(*evaluations)) {
      continue;
    }
    EvaluateShards(request, given, evaluations, verdict);
    if (verdict->kind == Verdict::Kind::kSound ||
        verdict->kind == Verdict::Kind::kUnproven) {
      return given;
    }
    if (coupled->empty()) *coupled = verdict->why;
  }
  return Given::kNothing;
}

}  // namespace tensorbow
