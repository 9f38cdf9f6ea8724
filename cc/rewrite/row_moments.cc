#include "cc/rewrite/row_moments.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/rewrite/gradient_sources.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;
using Nodes = std::vector<const tf::NodeDef*>;

// The tensor seen through operations that change nothing but its shape, and through
// averages over the learners.
std::string Stripped(const ProgramGraph& graph, std::string tensor) {
  static const auto* const transparent =
      new NameSet({"Identity", "StopGradient", "Squeeze", "Reshape", "Cast",
                   "ExpandDims", kMeanTogether});
  for (int hops = 0; hops < 8; ++hops) {
    const tf::NodeDef* const node = graph.Find(ParseTensor(tensor).node);
    if (node == nullptr || !transparent->contains(node->op())) break;
    tensor = Canonical(node->input(0));
  }
  return tensor;
}

// The nodes that reduce rows: a mean along the first dimension. By what they average.
absl::flat_hash_map<std::string, std::vector<const tf::NodeDef*>> MeansOverRows(
    const ProgramGraph& graph, const std::vector<const tf::NodeDef*>& nodes,
    const absl::flat_hash_set<std::string>& dependent) {
  absl::flat_hash_map<std::string, std::vector<const tf::NodeDef*>> means;
  for (const tf::NodeDef* node : nodes) {
    if (node->op() != "Mean" || node->input_size() < 2 ||
        !dependent.contains(node->name())) {
      continue;
    }
    const tf::NodeDef* const axes = graph.Find(ParseTensor(node->input(1)).node);
    tf::Tensor values;
    if (axes == nullptr || axes->op() != "Const" ||
        !values.FromProto(axes->attr().at("value").tensor())) {
      continue;
    }
    bool rows = false;
    for (int64_t i = 0; i < values.NumElements(); ++i) {
      rows |= values.dtype() == tf::DT_INT32 ? values.flat<int32_t>()(i) == 0
                                             : values.flat<int64_t>()(i) == 0;
    }
    if (rows) means[Stripped(graph, Canonical(node->input(0)))].push_back(node);
  }
  return means;
}

using Users = absl::flat_hash_map<std::string, Nodes>;  // by tensor

Users UsersOf(const Nodes& nodes) {
  Users users;
  for (const tf::NodeDef* node : nodes) {
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) users[Canonical(input)].push_back(node);
    }
  }
  return users;
}

// Whether something is divided by the root of the variance, and not the variance wanted
// for itself, as by a loss that keeps it large.
bool DividesByRoot(const Users& users, const tf::NodeDef& variance) {
  static const auto* const passing =
      new NameSet({"Identity", "Squeeze", "Reshape", "Cast", "ExpandDims", "Add",
                   "AddV2", "Sub", "Maximum", "Mul", "Relu", "Switch", "Merge",
                   "Select", "SelectV2", "StopGradient", kMeanTogether});
  std::set<std::pair<std::string, bool>> seen;  // tensors, and whether they are roots
  std::vector<std::pair<std::string, bool>> open = {
      {Canonical(variance.name()), false}};
  while (!open.empty()) {
    const auto [tensor, root] = open.back();
    open.pop_back();
    const auto found = users.find(tensor);
    if (found == users.end() || !seen.insert({tensor, root}).second) continue;
    for (const tf::NodeDef* user : found->second) {
      if (user->op() == "Rsqrt") return true;
      if (root && (user->op() == "Reciprocal" || user->op() == "Inv")) return true;
      const bool divides =
          user->op() == "RealDiv" || user->op() == "Div" || user->op() == "DivNoNan";
      if (root && divides && Canonical(user->input(1)) == tensor) return true;
      const bool is_root = user->op() == "Sqrt" || user->op() == "Pow";
      // What follows a root by other ways than a division is something else.
      if (is_root ||
          (passing->contains(user->op()) && !(root && user->op() == "Mul"))) {
        open.emplace_back(Canonical(user->name()), root || is_root);
        if (user->op() == "Switch") {
          open.emplace_back(absl::StrCat(user->name(), ":1"), root || is_root);
        }
      }
    }
  }
  return false;
}

// Finds the gradients that means over rows hand on to the rows, as TensorFlow writes
// them: the gradient, broadcast to the shape of the rows, divided by how many there are
// along the axes of the mean.
class MeanGradients {
 public:
  MeanGradients(const ProgramGraph& graph, const Nodes& nodes)
      : graph_(graph), users_(UsersOf(nodes)) {
    for (const tf::NodeDef* node : nodes) {
      if (node->op() == "BroadcastTo") broadcasts_.push_back(node);
      if (node->op() == "Mean") ++means_[KeyOf(*node)];
    }
  }

  // The broadcasts of gradients of `mean`; those of another one may be among them where
  // IsOnlyOne() does not hold.
  Nodes Of(const tf::NodeDef& mean) const {
    Nodes found;
    for (const tf::NodeDef* broadcast : broadcasts_) {
      if (!IsShapeOf(broadcast->input(1), mean.input(0))) continue;
      const auto users = users_.find(Canonical(broadcast->name()));
      if (users == users_.end()) continue;
      const bool divided = std::all_of(
          users->second.begin(), users->second.end(), [&](const tf::NodeDef* user) {
            return user->op() == "RealDiv" &&
                   Canonical(user->input(0)) == Canonical(broadcast->name()) &&
                   IsCountOf(user->input(1), mean);
          });
      if (divided) found.push_back(broadcast);
    }
    return found;
  }

  // Whether no other mean is over the same rows along the same axes.
  bool IsOnlyOne(const tf::NodeDef& mean) const { return means_.at(KeyOf(mean)) == 1; }

 private:
  using Key = std::pair<std::string, std::string>;
  Key KeyOf(const tf::NodeDef& mean) const {
    return {Canonical(mean.input(0)), Canonical(mean.input(1))};
  }

  const tf::NodeDef* Producer(absl::string_view tensor, const char* op) const {
    const tf::NodeDef* const node = graph_.Find(ParseTensor(tensor).node);
    return node != nullptr && node->op() == op ? node : nullptr;
  }

  bool IsShapeOf(absl::string_view shape, absl::string_view of) const {
    if (const tf::NodeDef* const one = Producer(shape, "Shape")) {
      return Canonical(one->input(0)) == Canonical(of);
    }
    const tf::NodeDef* const several = Producer(shape, "ShapeN");
    return several != nullptr &&
           Canonical(several->input(ParseTensor(shape).index)) == Canonical(of);
  }

  // Whether the tensor is how many numbers the mean is of: the product of the sizes
  // along its axes.
  bool IsCountOf(absl::string_view tensor, const tf::NodeDef& mean) const {
    const tf::NodeDef* const cast = Producer(tensor, "Cast");
    if (cast == nullptr) return false;
    const tf::NodeDef* const product = Producer(cast->input(0), "Prod");
    if (product == nullptr) return false;
    const tf::NodeDef* const gathered = Producer(product->input(0), "GatherV2");
    if (gathered == nullptr || !IsShapeOf(gathered->input(0), mean.input(0))) {
      return false;
    }
    const tf::NodeDef* const modulo = Producer(gathered->input(1), "FloorMod");
    if (modulo == nullptr) return false;
    const tf::NodeDef* const axes = Producer(modulo->input(0), "AddV2");
    return axes != nullptr && Canonical(axes->input(0)) == Canonical(mean.input(1));
  }

  const ProgramGraph& graph_;
  const Users users_;
  Nodes broadcasts_;
  std::map<Key, int> means_;
};

// Whether the tensor is computed from a variable that the run trains.
bool DependsOnTrained(const ProgramGraph& graph, const RunAnalysis& analysis,
                      absl::string_view tensor) {
  std::set<absl::string_view> reached;
  std::vector<absl::string_view> open = {ParseTensor(tensor).node};
  while (!open.empty()) {
    const absl::string_view name = open.back();
    open.pop_back();
    const tf::NodeDef* const node = graph.Find(name);
    if (node == nullptr || !reached.insert(node->name()).second) continue;
    const auto variable = analysis.variables.find(node->name());
    if (variable != analysis.variables.end() && variable->second.trained) return true;
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) open.push_back(ParseTensor(input).node);
    }
  }
  return false;
}

}  // namespace

RowMoments FindRowMoments(const ProgramGraph& graph, const RunSpec& spec) {
  RowMoments moments;
  Nodes nodes;
  if (!graph.Needed(spec, &nodes).ok()) return moments;
  const absl::flat_hash_set<std::string> dependent = DependOnFeeds(spec, nodes);
  const auto means = MeansOverRows(graph, nodes, dependent);
  const Users users = UsersOf(nodes);
  std::set<const tf::NodeDef*> found;
  // Notes all means over rows of `of`, if `mean` is one of them: a program may compute
  // the one that it subtracts and that of its deviation apart.
  const auto note_mean_of = [&](const std::string& mean, const std::string& of) {
    const auto known = means.find(Stripped(graph, of));
    if (known == means.end()) return false;
    const std::string source = Stripped(graph, mean);
    for (const tf::NodeDef* m : known->second) {
      if (Canonical(m->name()) != source) continue;
      found.insert(known->second.begin(), known->second.end());
      return true;
    }
    return false;
  };
  for (const tf::NodeDef* node : nodes) {
    if (!dependent.contains(node->name())) continue;
    if (absl::StartsWith(node->op(), "FusedBatchNorm") &&
        !absl::StrContains(node->op(), "Grad")) {
      const auto training = node->attr().find("is_training");
      moments.fused |= training == node->attr().end() || training->second.b();
    }
    if (node->op() != "Mean") continue;
    const std::string of = Stripped(graph, Canonical(node->input(0)));
    if (!means.contains(of) || !DividesByRoot(users, *node)) continue;
    const tf::NodeDef* squares = graph.Find(ParseTensor(of).node);
    if (squares == nullptr) continue;
    if (squares->op() == "Square") {
      const std::string base = Canonical(squares->input(0));
      const auto known = means.find(Stripped(graph, base));
      if (known != means.end()) {  // E x² − (E x)²
        found.insert(node);
        found.insert(known->second.begin(), known->second.end());
        continue;
      }
      squares = graph.Find(ParseTensor(base).node);  // (x − E x)²
      if (squares == nullptr || squares->op() != "Sub") continue;
    } else if (squares->op() != "SquaredDifference") {
      continue;
    }
    const std::string a = Canonical(squares->input(0));
    const std::string b = Canonical(squares->input(1));
    if (note_mean_of(a, b) || note_mean_of(b, a)) found.insert(node);
  }
  for (const tf::NodeDef* node : nodes) {
    if (found.count(node) > 0) moments.means.push_back(node);
  }
  return moments;
}

absl::flat_hash_set<std::string> MomentTensors(
    const ProgramGraph& graph, const RunSpec& spec,
    const std::vector<const tf::NodeDef*>& nodes) {
  absl::flat_hash_set<std::string> moments;
  for (const tf::NodeDef* mean : FindRowMoments(graph, spec).means) {
    moments.insert(Canonical(mean->name()));
  }
  constexpr int kOutputs = 6;  // of a fused batch normalisation, rows first
  for (const tf::NodeDef* node : nodes) {
    if (!absl::StartsWith(node->op(), "FusedBatchNorm") ||
        absl::StrContains(node->op(), "Grad")) {
      continue;
    }
    for (int i = 1; i < kOutputs; ++i) {
      moments.insert(absl::StrCat(node->name(), ":", i));
    }
  }
  return moments;
}

absl::StatusOr<bool> AverageMoments(const ProgramGraph& graph, const RunSpec& spec,
                                    const RunAnalysis& analysis, bool sums,
                                    ProgramGraph* together) {
  Nodes nodes;
  absl::Status needed = graph.Needed(spec, &nodes);
  if (!needed.ok()) return needed;
  const MeanGradients gradients(graph, nodes);
  bool all = true;
  Meetings averages;
  for (const tf::NodeDef* mean : FindRowMoments(graph, spec).means) {
    const Nodes handed_on = gradients.Of(*mean);
    const bool complete =
        gradients.IsOnlyOne(*mean) && !LiesInControlFlow(graph, mean->name()) &&
        (!handed_on.empty() || !DependsOnTrained(graph, analysis, mean->input(0))) &&
        std::none_of(handed_on.begin(), handed_on.end(),
                     [&graph](const auto* broadcast) {
                       return LiesInControlFlow(graph, broadcast->name());
                     });
    if (!complete) {
      all = false;
      continue;
    }
    averages[Canonical(mean->name())];
    for (const tf::NodeDef* broadcast : handed_on) {
      Meeting& gradient = averages[Canonical(broadcast->input(0))];
      gradient.users.insert(broadcast->name());
      if (sums) gradient.how = Meeting::How::kPart;
    }
  }

  TF_RETURN_IF_ERROR(InsertMeetings(graph, spec, averages, together));
  return all;
}

}  // namespace tensorbow
