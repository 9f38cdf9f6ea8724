#include "cc/training/division_proof.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/control_flow.h"
#include "cc/rewrite/held_moments.h"
#include "cc/rewrite/row_means.h"
#include "cc/rewrite/row_moments.h"
#include "cc/rewrite/shapes.h"
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

// Whether the node computes in 16 bits.
bool HasSixteenBits(const tf::NodeDef* node) {
  for (const auto& [name, attribute] : node->attr()) {
    if (attribute.value_case() != tf::AttrValue::kType) continue;
    const tf::DataType type = attribute.type();
    if (type == tf::DT_HALF || type == tf::DT_BFLOAT16) return true;
  }
  return false;
}

// The shapes of variables that the graph tells.
std::map<std::string, tf::TensorShape> KnownShapes(const RunAnalysis& analysis) {
  std::map<std::string, tf::TensorShape> shapes;
  for (const auto& [name, use] : analysis.variables) {
    const auto shape = use.node->attr().find("shape");
    if (shape == use.node->attr().end()) continue;
    const tf::PartialTensorShape known(shape->second.shape());
    tf::TensorShape full;
    if (known.AsTensorShape(&full)) shapes[name] = full;
  }
  return shapes;
}

}  // namespace

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
  const auto of_rows = DependOnFeeds(FedRows(graph, spec), nodes);
  made->batch_moments_ = FindRowMoments(graph, spec).any();
  made->denominators_ = FindDenominators(graph, spec, analysis);
  ProgramGraph held, exchanging;
  const ProgramGraph* evaluated = &graph;
  if (made->batch_moments_) {
    evaluated = made->ChooseGraph(graph, spec, analysis, &held, &exchanging);
  }
  made->has_16_bits_ = std::any_of(nodes.begin(), nodes.end(), HasSixteenBits);

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
  absl::Status built =
      BuildProofGraph(*evaluated, spec, wanted, trained, prefix, &made->graph_);
  if (!built.ok() && evaluated != &graph) {
    evaluated = &graph;
    made->exchanged_.clear();
    built = BuildProofGraph(graph, spec, wanted, trained, prefix, &made->graph_);
  }
  if (!built.ok()) {
    return absl::UnimplementedError(absl::StrCat(
        "its gradients cannot be evaluated by themselves: ", built.message()));
  }

  // Where the value of a tensor is, or -1: what cannot be copied is left out.
  const auto place_if_possible = [&](const std::string& tensor) {
    if (tensor.empty() || LiesInControlFlow(graph, tensor)) return -1;
    const size_t before = wanted.size();
    const int at = place(tensor);
    if (wanted.size() == before) return at;
    ProofGraph more;
    if (!BuildProofGraph(*evaluated, spec, wanted, trained, prefix, &more).ok()) {
      wanted.pop_back();
      return -1;
    }
    made->graph_ = std::move(more);
    return at;
  };
  for (const std::string& fetch : fetches) {
    made->fetches_.push_back(place_if_possible(fetch));
    made->depends_.push_back(dependent.contains(std::string(ParseTensor(fetch).node)));
    made->fetches_may_be_means_.push_back(CanBeMeanOfRows(graph, fetch, of_rows));
  }
  for (const auto& [tensor, denominator] : made->denominators_) {
    made->at_denominators_.push_back(place_if_possible(tensor));
    made->at_totals_.push_back(place_if_possible(denominator.total));
  }
  made->state_changes_ = FindStateChanges(graph, spec, analysis);
  for (const StateChange& change : made->state_changes_) {
    made->states_.push_back(change.in_rows ? -1 : place_if_possible(change.tensor));
    made->states_may_be_means_.push_back(
        CanBeMeanOfRows(graph, change.tensor, of_rows));
  }
  made->shapes_ = KnownShapes(analysis);
  *proof = std::move(made);
  return absl::OkStatus();
}

const ProgramGraph* DivisionProof::ChooseGraph(const ProgramGraph& graph,
                                               const RunSpec& spec,
                                               const RunAnalysis& analysis,
                                               ProgramGraph* held,
                                               ProgramGraph* exchanging) {
  const absl::StatusOr<bool> holds = HoldMoments(graph, spec, analysis, held);
  if (!holds.ok() || !*holds) return &graph;
  return ExchangeDenominators(*held, spec, exchanging) ? exchanging : held;
}

bool DivisionProof::ExchangeDenominators(const ProgramGraph& graph, const RunSpec& spec,
                                         ProgramGraph* exchanging) {
  RunSpec described = spec;
  for (const auto& [tensor, denominator] : denominators_) {
    described.fetches.push_back(tensor);
  }
  const auto shapes = InferShapes(graph, described);
  Meetings parts;
  for (const auto& [tensor, denominator] : denominators_) {
    const tf::PartialTensorShape& shape = shapes.at(tensor);
    if (shape.unknown_rank() || shape.dims() > 0 || LiesInControlFlow(graph, tensor)) {
      continue;
    }
    parts[tensor] = {Meeting::How::kPart, /*must=*/true, denominator.users};
  }
  if (parts.empty() || !InsertMeetings(graph, spec, parts, exchanging).ok()) {
    return false;
  }
  for (const auto& [tensor, meeting] : parts) exchanged_.insert(tensor);
  return true;
}

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
  tf::CallableOptions with_moments = options, with_all = options;
  for (const ProofGraph::Exchange& exchange : graph_.exchanges) {
    options.add_fetch(exchange.tensor);
    if (!exchange.is_denominator) with_moments.add_feed(exchange.tensor);
    with_all.add_feed(exchange.tensor);
  }
  TF_RETURN_IF_ERROR(central->MakeCallable(options, &callable_));
  if (!graph_.exchanges.empty()) {
    TF_RETURN_IF_ERROR(central->MakeCallable(with_moments, &with_moments_));
  }
  if (!exchanged_.empty()) {
    TF_RETURN_IF_ERROR(central->MakeCallable(with_all, &with_all_));
  }
  prepared_ = true;
  return absl::OkStatus();
}

void DivisionProof::Release(tf::Session* central) {
  if (prepared_) {
    central->ReleaseCallable(callable_).IgnoreError();
    if (!graph_.exchanges.empty()) {
      central->ReleaseCallable(with_moments_).IgnoreError();
    }
    if (!exchanged_.empty()) central->ReleaseCallable(with_all_).IgnoreError();
  }
  prepared_ = false;
}

absl::StatusOr<DivisionProof::Evaluation> DivisionProof::Evaluate(
    const Request& request, Values feeds, int64_t count, Given given,
    const Evaluation* whole) const {
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
  Values values;
  TF_RETURN_IF_ERROR(request.central->RunCallable(given == Given::kNothing ? callable_
                                                  : all ? with_all_
                                                        : with_moments_,
                                                  feeds, &values, nullptr));
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
                                   Evaluations* evaluations, Verdict* verdict) const {
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

absl::StatusOr<Verdict> DivisionProof::Prove(tf::Session* central,
                                             const std::vector<tf::Tensor>& feeds,
                                             const FeedPlan& plan,
                                             const ProofOptions& options) {
  TF_RETURN_IF_ERROR(Prepare(central));
  int64_t count = RowsOfFeeds(plan, feeds);
  if (options.most_rows > 0) count = std::min(count, options.most_rows);
  const Request request = {
      central, feeds, plan, Shards(count, options.num_shards), count, options.how_far};

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
                                                      std::string* coupled) const {
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
