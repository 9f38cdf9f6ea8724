// What a proof of a division evaluates: DivisionProof::Make.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/shapes.h"
#include "cc/rewrite/held_moments.h"
#include "cc/rewrite/row_means.h"
#include "cc/rewrite/row_moments.h"
#include "cc/training/division_proof.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

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

// The place of `tensor` in `wanted`, to which it is added if it is not there.
int Place(const std::string& tensor, std::vector<std::string>* wanted) {
  const auto known = std::find(wanted->begin(), wanted->end(), tensor);
  const int at = static_cast<int>(known - wanted->begin());
  if (known == wanted->end()) wanted->push_back(tensor);
  return at;
}

}  // namespace

absl::Status DivisionProof::Make(const ProgramGraph& graph, const RunSpec& spec,
                                 const RunAnalysis& analysis,
                                 const std::vector<std::string>& fetches,
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
  made->state_changes_ = FindStateChanges(graph, spec, analysis);
  made->has_16_bits_ = std::any_of(nodes.begin(), nodes.end(), HasSixteenBits);
  made->shapes_ = KnownShapes(analysis);
  for (const std::string& fetch : fetches) {
    made->depends_.push_back(dependent.contains(std::string(ParseTensor(fetch).node)));
    made->fetches_may_be_means_.push_back(CanBeMeanOfRows(graph, fetch, of_rows));
  }
  for (const StateChange& change : made->state_changes_) {
    made->states_may_be_means_.push_back(
        CanBeMeanOfRows(graph, change.tensor, of_rows));
  }

  ProgramGraph held, exchanging;
  const ProgramGraph* evaluated = &graph;
  if (made->batch_moments_) {
    evaluated = made->ChooseGraph(graph, spec, analysis, &held, &exchanging);
  }
  const std::vector<std::string> beside = made->Beside(graph, fetches);
  absl::Status copied = made->CopyGraph(*evaluated, spec, beside);
  if (!copied.ok() && evaluated != &graph) {
    made->exchanged_.clear();
    copied = made->CopyGraph(graph, spec, beside);
  }
  if (!copied.ok()) {
    return absl::UnimplementedError(absl::StrCat(
        "its gradients cannot be evaluated by themselves: ", copied.message()));
  }
  *proof = std::move(made);
  return absl::OkStatus();
}

std::vector<std::string> DivisionProof::Beside(
    const ProgramGraph& graph, const std::vector<std::string>& fetches) const {
  std::vector<std::string> tensors = fetches;
  for (const auto& [tensor, denominator] : denominators_) {
    tensors.push_back(tensor);
    tensors.push_back(denominator.total);
  }
  for (const StateChange& change : state_changes_) {
    tensors.push_back(change.in_rows ? "" : change.tensor);
  }
  for (std::string& tensor : tensors) {
    if (!tensor.empty() && LiesInControlFlow(graph, tensor)) tensor.clear();
  }
  return tensors;
}

absl::Status DivisionProof::CopyGraph(const ProgramGraph& graph, const RunSpec& spec,
                                      const std::vector<std::string>& beside) {
  std::vector<std::string> wanted;
  absl::flat_hash_set<std::string> trained;
  places_.clear();
  for (const GradientSource& source : sources_) {
    trained.insert(source.variable);
    Places places;
    places.tensor = Place(source.tensor, &wanted);
    if (!source.indices.empty()) places.indices = Place(source.indices, &wanted);
    if (source.is_value) {
      places.variable = Place(absl::StrCat(source.variable, ":0"), &wanted);
    }
    places_.push_back(places);
  }
  std::vector<std::string> with_all = wanted;
  std::vector<int> places;
  for (const std::string& tensor : beside) {
    places.push_back(tensor.empty() ? -1 : Place(tensor, &with_all));
  }
  if (!BuildProofGraph(graph, spec, with_all, trained, &graph_).ok()) {
    // Without what cannot be copied, which is found out one by one.
    TF_RETURN_IF_ERROR(BuildProofGraph(graph, spec, wanted, trained, &graph_));
    for (size_t i = 0; i < beside.size(); ++i) {
      if (beside[i].empty()) continue;
      std::vector<std::string> with_one = wanted;
      places[i] = Place(beside[i], &with_one);
      ProofGraph more;
      if (with_one.size() == wanted.size()) continue;
      if (BuildProofGraph(graph, spec, with_one, trained, &more).ok()) {
        wanted = std::move(with_one);
        graph_ = std::move(more);
      } else {
        places[i] = -1;
      }
    }
  }
  auto next = places.begin();
  const auto take = [&next](size_t count) {
    const auto first = std::exchange(next, next + count);
    return std::vector<int>(first, next);
  };
  fetches_ = take(depends_.size());
  at_denominators_.clear();
  at_totals_.clear();
  for (size_t i = 0; i < denominators_.size(); ++i) {
    at_denominators_.push_back(*next++);
    at_totals_.push_back(*next++);
  }
  states_ = take(state_changes_.size());
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

}  // namespace tensorbow
