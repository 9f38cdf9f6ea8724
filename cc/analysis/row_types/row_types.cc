#include "cc/analysis/row_types/row_types.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/lost_results.h"
#include "cc/analysis/row_types/repeated_work.h"
#include "cc/analysis/row_types/type_flow.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"

namespace tensorbow {

namespace tf = ::tensorflow;

const RowType* RowTypes::Find(absl::string_view tensor) const {
  const auto found = types.find(tensor);
  return found == types.end() || !found->second.typed() ? nullptr : &found->second;
}

std::string RowTypes::Describe(absl::string_view tensor) const {
  const RowType* const type = Find(tensor);
  return tensorbow::Describe(type == nullptr ? RowType() : *type, *sizes);
}

namespace {

Sizes DimsOfFeed(SizeTable& sizes, const std::string& name,
                 const tf::PartialTensorShape& shape) {
  Sizes dims;
  for (int d = 0; d < shape.dims(); ++d) {
    const int64_t size = shape.dim_size(d);
    dims.push_back(size >= 0 ? sizes.Constant(size)
                             : sizes.OfFeed(absl::StrCat(name, ":", d)));
  }
  return dims;
}

RowType TypeOfFeed(SizeTable& sizes, const FeedOfRows& feed,
                   tf::PartialTensorShape shape) {
  if (shape.unknown_rank() && feed.rank.has_value()) {
    std::vector<int64_t> sizes_fed(*feed.rank, -1);
    if (static_cast<int>(feed.of_row.size()) + 1 == *feed.rank) {
      std::copy(feed.of_row.begin(), feed.of_row.end(), sizes_fed.begin() + 1);
    }
    shape = tf::PartialTensorShape(sizes_fed);
  }
  std::optional<Sizes> dims;
  if (!shape.unknown_rank()) dims = DimsOfFeed(sizes, feed.tensor, shape);
  if (!feed.divided) return Make(RowKind::kSame, dims);
  if (dims.has_value() && !dims->empty()) (*dims)[0] = sizes.RowsOf(kFedRows);
  return MakeRows(0, kFedRows, dims);
}

// Returns the types of the indices, the values and the shape of a sparse feed.
Types TypesOfSparse(SizeTable& sizes, const std::string& name, int64_t rank) {
  const Part entries = sizes.Chosen(absl::StrCat("entries of ", name));
  const Size count = sizes.RowsOf(entries), rows = sizes.RowsOf(kFedRows);
  RowType indices = MakeRows(0, entries, Sizes{count, sizes.Constant(rank)});
  indices.own = {OwnPlaces::Kind::kColumn, rows, ""};
  RowType shape = Make(RowKind::kSizes, Sizes{sizes.Constant(rank)});
  shape.numbers = Sizes{rows};
  for (int64_t d = 1; d < rank; ++d) {
    shape.numbers->push_back(sizes.Open(absl::StrCat(name, ":", d)));
  }
  return {indices, MakeRows(0, entries, Sizes{count}), shape};
}

// Returns whether the node, or a function that it calls, does more than check values.
bool HasEffects(const tf::NodeDef& node, const tf::FunctionLibraryDefinition& functions,
                absl::flat_hash_set<std::string>* seen) {
  const tf::OpDef* op = nullptr;
  const std::vector<tensorbow::Call> calls = CallsOf(node, functions);
  if (calls.empty()) {
    return IsWrite(node.op()) || !functions.LookUpOpDef(node.op(), &op).ok() ||
           tensorbow::HasEffects(*op);
  }
  for (const tensorbow::Call& call : calls) {
    const tf::FunctionDef* const function = functions.Find(call.function);
    if (function == nullptr || !seen->insert(call.function).second) continue;
    for (const tf::NodeDef& inner : function->node_def()) {
      if (HasEffects(inner, functions, seen)) return true;
    }
  }
  return false;
}

// Returns the nodes that determine the values of `fetches`, or writes and other
// effects, without the nodes that only serve checks.
absl::flat_hash_set<std::string> UsedNodes(
    const TypedGraph& graph, const tf::FunctionLibraryDefinition& functions,
    std::vector<const tf::Node*> fetches) {
  for (const tf::Node* node : graph.graph->op_nodes()) {
    absl::flat_hash_set<std::string> seen;
    if (HasEffects(node->def(), functions, &seen)) fetches.push_back(node);
  }
  absl::flat_hash_set<std::string> used;
  while (!fetches.empty()) {
    const tf::Node* const node = fetches.back();
    fetches.pop_back();
    if (!node->IsOp() || !used.insert(node->name()).second) continue;
    for (const tf::Edge* edge : node->in_edges()) {
      // A branch is started by control edges from its condition's switch.
      const tf::Node* const source = edge->src();
      const bool of_branch = source->IsIdentity() && source->IsOp() &&
                             graph.inputs[source->id()][0].node->IsSwitch();
      if (!edge->IsControlEdge() || of_branch) fetches.push_back(source);
    }
  }
  return used;
}

// Returns the node of the run's graph to which a path below it belongs.
absl::string_view TopOf(absl::string_view path,
                        const std::unordered_map<std::string, tf::Node*>& nodes) {
  while (nodes.count(std::string(path)) == 0) {
    const size_t end = path.rfind('/');
    if (end == absl::string_view::npos) break;
    path = path.substr(0, end);
  }
  return path;
}

}  // namespace

absl::StatusOr<RowTypes> TypeRows(const ProgramGraph& program, const RunSpec& spec,
                                  const absl::flat_hash_set<std::string>& trainable,
                                  const RowsOfRun& rows, bool gathers) {
  absl::flat_hash_map<std::string, int> ranks;
  for (const FeedOfRows& feed : rows.feeds) {
    if (!feed.rank.has_value()) continue;
    ranks[std::string(ParseTensor(feed.tensor).node)] = *feed.rank;
  }
  TF_ASSIGN_OR_RETURN(const std::unique_ptr<TypedGraph> graph,
                      TypedGraph::Of(program, spec, ranks));
  const auto nodes = graph->graph->BuildNodeNameIndex();
  const auto find = [&nodes](absl::string_view name) -> const tf::Node* {
    const auto found = nodes.find(std::string(ParseTensor(name).node));
    return found == nodes.end() ? nullptr : found->second;
  };
  const auto sizes = std::make_shared<SizeTable>();
  TypeFlow::Given given;
  const auto give = [&](const std::string& tensor, RowType type) {
    const tf::Node* const node = find(tensor);
    if (node != nullptr)
      given[{node->id(), ParseTensor(tensor).index}] = std::move(type);
  };
  for (const FeedOfRows& feed : rows.feeds) {
    const tf::Node* const node = find(feed.tensor);
    if (node == nullptr) continue;
    give(feed.tensor,
         TypeOfFeed(*sizes, feed,
                    graph->shapes[node->id()][ParseTensor(feed.tensor).index]));
  }
  for (const auto& parts : rows.sparse) {
    const tf::Node* const node = find(parts[2]);
    int64_t rank = 2;
    if (node != nullptr) {
      const auto& shape = graph->shapes[node->id()][ParseTensor(parts[2]).index];
      if (shape.dims() == 1 && shape.dim_size(0) > 0) rank = shape.dim_size(0);
    }
    const Types types = TypesOfSparse(*sizes, parts[1], rank);
    for (size_t i = 0; i < parts.size(); ++i) give(parts[i], types[i]);
  }
  std::vector<const tf::Node*> ends, fetched;
  for (const auto* names : {&spec.fetches, &spec.targets}) {
    for (const std::string& name : *names) {
      const tf::Node* const node = find(name);
      if (node == nullptr) return absl::NotFoundError(name);
      ends.push_back(node);
      if (names == &spec.fetches) fetched.push_back(node);
    }
  }
  TypeFlow flow(*graph, program.functions(), trainable, sizes, gathers);
  flow.Run(given, ends);
  RowTypes types = flow.Take();
  // Checks may see a learner's own rows only, which does no harm.
  const auto used = UsedNodes(*graph, program.functions(), std::move(fetched));
  const auto is_check = [&](absl::string_view path) {
    return !used.contains(TopOf(ParseTensor(path).node, nodes));
  };
  const auto drop = [](auto* list, const auto& unused) {
    list->erase(std::remove_if(list->begin(), list->end(), unused), list->end());
  };
  drop(&types.exchanges, is_check);
  drop(&types.needs, [&](const RowNeed& need) { return is_check(need.node); });
  drop(&types.writes, [&](const RowWrite& write) {
    const tf::Node* const node = find(TopOf(write.node, nodes));
    return is_check(write.node) && node != nullptr &&
           !CallsOf(node->def(), program.functions()).empty();
  });
  types.unknown = FindLostResult(*graph);
  if (types.unknown == nullptr) types.unknown = FindRepeatedWork(*graph, types);
  for (const RowWrite& write : types.writes) {
    if (types.unknown == nullptr && write.type.unknown()) {
      types.unknown = write.type.why;
    }
  }
  for (auto type = types.types.begin(); type != types.types.end();) {
    const auto at = type++;
    if (is_check(at->first)) types.types.erase(at);
  }
  return types;
}

}  // namespace tensorbow
