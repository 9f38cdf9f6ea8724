#include "cc/training/division_proof.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/control_flow.h"
#include "cc/rewrite/row_moments.h"
#include "cc/support/freed_memory.h"
#include "cc/training/division_evidence.h"
#include "tensorflow/core/framework/tensor_util.h"
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

// `value` − `now`, of a type that has gradients; nothing where that cannot be said.
std::optional<tf::Tensor> Change(const tf::Tensor& value, const tf::Tensor& now) {
  if (now.dtype() != value.dtype() || now.NumElements() != value.NumElements()) {
    return std::nullopt;
  }
  tf::Tensor change(value.dtype(), value.shape());
  switch (value.dtype()) {
    case tf::DT_FLOAT:
      change.flat<float>() = value.flat<float>() - now.flat<float>();
      return change;
    case tf::DT_DOUBLE:
      change.flat<double>() = value.flat<double>() - now.flat<double>();
      return change;
    default:
      return std::nullopt;
  }
}

}  // namespace

// What is compared of one evaluation.
struct DivisionProof::Evaluation {
  struct Gradient {
    tf::DataType dtype;
    int64_t size;        // elements; -1 if it cannot be compared
    tf::Tensor values;   // where dense, a sketch; where a new value, the change
    tf::Tensor indices;  // of rows, where sparse
  };
  std::vector<Gradient> gradients;  // by source
  Values fetches;                   // by fetch; empty where it is not evaluated
};

// What has been evaluated, and of which rows.
struct DivisionProof::Evaluations {
  Evaluation whole;
  std::vector<Evaluation> shards;
  std::vector<int64_t> rows;        // of the shards
  std::optional<Evaluation> twice;  // the first shard's rows
};

absl::Status DivisionProof::Make(const ProgramGraph& graph, const RunSpec& spec,
                                 const RunAnalysis& analysis,
                                 const std::vector<std::string>& fetches,
                                 const std::string& prefix,
                                 std::unique_ptr<DivisionProof>* proof) {
  auto made = std::make_unique<DivisionProof>();
  made->sources_ = FindGradientSources(graph, spec, analysis);
  if (made->sources_.empty()) {
    return absl::FailedPreconditionError(
        "no gradient is to be seen: weights are updated in functions, conditionals or "
        "loops, or do not depend on what is fed");
  }
  std::vector<const tf::NodeDef*> nodes;
  TF_RETURN_IF_ERROR(graph.Needed(spec, &nodes));
  const auto dependent = DependOnFeeds(spec, nodes);
  made->batch_moments_ = FindRowMoments(graph, spec).any();

  std::vector<std::string> wanted;
  const auto place = [&wanted](const std::string& tensor) {
    const auto known = std::find(wanted.begin(), wanted.end(), tensor);
    if (known != wanted.end()) return static_cast<int>(known - wanted.begin());
    wanted.push_back(tensor);
    return static_cast<int>(wanted.size()) - 1;
  };
  absl::flat_hash_set<std::string> trained;
  for (const GradientSource& source : made->sources_) {
    trained.insert(source.variable);
    Places places;
    places.tensor = place(source.tensor);
    if (!source.indices.empty()) places.indices = place(source.indices);
    if (source.is_value) places.variable = place(absl::StrCat(source.variable, ":0"));
    made->places_.push_back(places);
  }
  TF_RETURN_IF_ERROR(
      BuildProofGraph(graph, spec, wanted, trained, prefix, &made->graph_));

  // Fetches that cannot be copied are left out.
  made->fetches_.assign(fetches.size(), -1);
  made->depends_.assign(fetches.size(), false);
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (fetches[i].empty() || LiesInControlFlow(graph, fetches[i])) continue;
    const size_t before = wanted.size();
    const int at = place(fetches[i]);
    ProofGraph more;
    if (wanted.size() > before &&
        !BuildProofGraph(graph, spec, wanted, trained, prefix, &more).ok()) {
      wanted.pop_back();
      continue;
    }
    if (wanted.size() > before) made->graph_ = std::move(more);
    made->fetches_[i] = at;
    made->depends_[i] = dependent.contains(std::string(ParseTensor(fetches[i]).node));
  }
  for (const auto& [name, use] : analysis.variables) {
    const auto shape = use.node->attr().find("shape");
    if (shape == use.node->attr().end()) continue;
    const tf::PartialTensorShape known(shape->second.shape());
    tf::TensorShape full;
    if (known.AsTensorShape(&full)) made->shapes_[name] = full;
  }
  *proof = std::move(made);
  return absl::OkStatus();
}

// -------------------------------------------------------------------- evaluation

absl::Status DivisionProof::Prepare(tf::Session* central) {
  if (!extended_) {
    TF_RETURN_IF_ERROR(central->Extend(graph_.extension));
    graph_.extension.Clear();
    extended_ = true;
  }
  if (prepared_) return absl::OkStatus();
  tf::CallableOptions options;
  for (const std::string& feed : graph_.feeds) options.add_feed(feed);
  for (const std::string& fetch : graph_.fetches) options.add_fetch(fetch);
  TF_RETURN_IF_ERROR(central->MakeCallable(options, &callable_));
  prepared_ = true;
  return absl::OkStatus();
}

void DivisionProof::Release(tf::Session* central) {
  if (prepared_) central->ReleaseCallable(callable_).IgnoreError();
  prepared_ = false;
}

absl::StatusOr<DivisionProof::Evaluation> DivisionProof::Evaluate(
    tf::Session* central, Values feeds, double how_far) const {
  feeds.push_back(tf::Tensor(static_cast<float>(how_far)));
  Values values;
  TF_RETURN_IF_ERROR(central->RunCallable(callable_, feeds, &values, nullptr));
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
  for (int at : fetches_) {
    evaluation.fetches.push_back(at < 0 ? tf::Tensor() : values[at]);
  }
  return evaluation;
}

absl::StatusOr<Verdict> DivisionProof::Prove(tf::Session* central,
                                             const std::vector<tf::Tensor>& feeds,
                                             const FeedPlan& plan,
                                             const ProofOptions& options) {
  TF_RETURN_IF_ERROR(Prepare(central));
  int64_t rows = RowsOfFeeds(plan, feeds);
  if (options.most_rows > 0) rows = std::min(rows, options.most_rows);

  Evaluations evaluations;
  TF_ASSIGN_OR_RETURN(
      evaluations.whole,
      Evaluate(central, FeedsOfTask(plan, FeedPlan::Rows{0, rows}, feeds),
               options.how_far));
  Verdict verdict;
  verdict.fetches.resize(fetches_.size());
  const std::vector<FeedPlan::Rows> shards = Shards(rows, options.num_shards);
  for (const FeedPlan::Rows& shard : shards) {
    auto values = Evaluate(central, FeedsOfTask(plan, shard, feeds), options.how_far);
    if (!values.ok()) {
      verdict.kind = Verdict::Kind::kNotSound;
      verdict.why = absl::StrCat("with ", shard.count(), " of the ", rows,
                                 " rows it fails: ", FirstLine(values.status()));
      verdict.determined = true;
      return verdict;
    }
    evaluations.shards.push_back(*std::move(values));
    evaluations.rows.push_back(shard.count());
  }
  if (JudgeGradients(evaluations, &verdict)) {
    TF_ASSIGN_OR_RETURN(Values twice,
                        FeedsTwice(plan, FeedsOfTask(plan, shards[0], feeds)));
    auto values = Evaluate(central, std::move(twice), options.how_far);
    if (values.ok()) {
      evaluations.twice = *std::move(values);
      JudgeGradients(evaluations, &verdict);
    } else {
      verdict.kind = Verdict::Kind::kNotSound;
      absl::StrAppend(&verdict.why,
                      ", and rows cannot be given twice: ", FirstLine(values.status()));
    }
  }
  if (verdict.divides()) JudgeFetches(evaluations, &verdict);
  return verdict;
}

// --------------------------------------------------------------------- judgement

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

bool DivisionProof::JudgeGradients(const Evaluations& evaluations,
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
  const Judgement judgement =
      JudgeDivision(gradients, evaluations.rows, batch_moments_);
  verdict->kind = judgement.kind;
  verdict->why = judgement.why;
  verdict->determined = judgement.determined;
  verdict->greatest = judgement.greatest;
  verdict->sums.clear();
  if (judgement.needs_twice || !verdict->divides()) return judgement.needs_twice;
  std::set<int> sums;
  for (int gradient : judgement.sums) sums.insert(source_of[gradient]);
  for (int source : sums) {
    verdict->sums.insert(sources_[source].tensor);
    if (!sources_[source].is_value) continue;
    verdict->kind = Verdict::Kind::kNotSound;
    verdict->why = absl::StrCat("the loss sums over rows, and the new value of '",
                                sources_[source].variable, "' cannot be scaled");
  }
  // Nor can a tensor that is a sum for one variable and a mean for another.
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sums.count(i) > 0 || verdict->sums.count(sources_[i].tensor) == 0) continue;
    verdict->kind = Verdict::Kind::kNotSound;
    verdict->why = absl::StrCat("'", sources_[i].tensor,
                                "' is a sum over rows for some variables only");
  }
  return false;
}

void DivisionProof::JudgeFetches(const Evaluations& evaluations,
                                 Verdict* verdict) const {
  // Where the batch is seen as a whole, values differ that are of the same kind; those
  // of rows given twice do not.
  const bool twice = evaluations.twice.has_value();
  const std::vector<int64_t> rows =
      twice ? std::vector<int64_t>(2, evaluations.rows[0]) : evaluations.rows;
  for (size_t i = 0; i < fetches_.size(); ++i) {
    if (fetches_[i] < 0) continue;
    Values shards;
    for (const Evaluation& shard : evaluations.shards) {
      shards.push_back(shard.fetches[i]);
    }
    if (twice) shards.assign(2, evaluations.shards[0].fetches[i]);
    const Evaluation& whole = twice ? *evaluations.twice : evaluations.whole;
    const FetchEvidence evidence =
        CompareFetch(whole.fetches[i], shards, rows, depends_[i]);
    verdict->determined &= evidence.determined || !evidence.rule.has_value();
    verdict->fetches[i] = evidence.rule;
    if (!evidence.rule.has_value()) {
      verdict->fetches[i] = Combination::kFirst;
      verdict->uncombined.push_back(static_cast<int>(i));
    }
  }
}

}  // namespace tensorbow
