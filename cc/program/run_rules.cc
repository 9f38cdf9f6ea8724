#include "cc/program/run_rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/run_graph.h"
#include "cc/passes/program/cut_at_element.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Finds the three feeds that form a sparse tensor.
void LocateParts(const RunSpec& spec, const std::array<std::string, 3>& names,
                 const Options& options, FeedDeclaration* feed) {
  std::array<int, 3> parts;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(spec.feeds.begin(), spec.feeds.end(), names[i]);
    if (found == spec.feeds.end()) return;
    parts[i] = static_cast<int>(found - spec.feeds.begin());
    feed->named = feed->named || options.shard.count(names[i]) > 0;
  }
  feed->sparse = SparseParts{parts[0], parts[1], parts[2]};
}

// Returns how a feed is divided.
FeedDeclaration Declare(const RunGraph& run, const std::string& name,
                        const tf::PartialTensorShape& shape,
                        const SparseFeeds& sparse_feeds, const Options& options) {
  using Division = FeedDeclaration::Division;
  FeedDeclaration feed;
  feed.name = name;
  feed.shape = shape;
  const auto sparse = sparse_feeds.find(name);
  // The user's choice and the facts about one part of a sparse tensor hold for all.
  std::vector<std::string> parts = {name};
  if (sparse != sparse_feeds.end()) {
    parts.insert(parts.end(), sparse->second.begin(), sparse->second.end());
  }
  const auto any = [&parts](const std::set<std::string>& names) {
    return std::any_of(parts.begin(), parts.end(), [&names](const std::string& part) {
      return names.count(part) > 0;
    });
  };
  // Programs feed more than a run needs; such a feed shows nothing about rows.
  const bool used = std::any_of(parts.begin(), parts.end(),
                                [&run](const auto& part) { return run.Uses(part); });
  if (sparse == sparse_feeds.end() && any(options.shard)) {
    feed.division = Division::kShard;
  } else if (any(options.replicate) || !used) {
    feed.division = Division::kReplicate;
  } else if (sparse != sparse_feeds.end()) {
    feed.division = Division::kSparse;
    LocateParts(run.spec(), sparse->second, options, &feed);
  }
  return feed;
}

// Returns whether the tensor is the value of a resource variable.
bool IsRead(const ProgramGraph& graph, absl::string_view tensor) {
  const tf::NodeDef* node = graph.Find(ParseTensor(tensor).node);
  while (node != nullptr && node->op() == "Identity") {
    node = graph.Find(ParseTensor(node->input(0)).node);
  }
  return node != nullptr && node->op() == "ReadVariableOp";
}

}  // namespace

absl::Status FindRunRules(const ProgramGraph& graph, const RunSpec& spec,
                          const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                          const Options& options, bool in_step,
                          CompiledProgram* program) {
  program->task.feeds = spec.feeds;
  program->task.targets = spec.targets;

  TF_ASSIGN_OR_RETURN(const auto run, RunGraph::Of(graph, spec));
  for (const std::string& name : spec.feeds) {
    tf::PartialTensorShape shape = run->Shape(name);
    const bool any_rows = fixed.feeds.count(name) > 0;
    if (any_rows && !shape.unknown_rank()) shape.set_dim(0, fixed.rows);
    FeedDeclaration feed = Declare(*run, name, shape, sparse_feeds, options);
    feed.any_rows = any_rows;
    const tf::NodeDef* const producer = graph.Find(ParseTensor(name).node);
    feed.of_pipeline = producer != nullptr && (producer->op() == kElement ||
                                               FactsOf(producer->op()).takes_data);
    program->feeds.push_back(std::move(feed));
  }
  for (const std::string& name : spec.fetches) {
    FetchSource fetch;
    fetch.declaration.name = name;
    const tf::PartialTensorShape& shape = run->Shape(name);
    fetch.declaration.leading_dimension_unknown =
        shape.unknown_rank() || (shape.dims() > 0 && shape.dim_size(0) < 0);
    const auto chosen = options.combine.find(name);
    if (chosen != options.combine.end()) {
      fetch.declaration.combination = chosen->second;
    } else if (program->replicated) {
      std::vector<std::string> targets;
      const std::string variable = VariableReadBy(graph, name, &targets);
      const bool before = in_step && IsRead(graph, name);
      if (!variable.empty() && !before) {
        fetch.variable = *graph.Find(variable);
        program->task.targets.insert(program->task.targets.end(), targets.begin(),
                                     targets.end());
      }
    }
    if (!fetch.variable.has_value()) {
      fetch.task_fetch = static_cast<int>(program->task.fetches.size());
      program->task.fetches.push_back(name);
    }
    program->fetches.push_back(std::move(fetch));
  }
  const std::string rows = run->RowsTensor();
  if (!rows.empty()) {
    program->rows_fetch = static_cast<int>(program->task.fetches.size());
    program->task.fetches.push_back(rows);
  }
  return absl::OkStatus();
}

std::set<int> WholeFeeds(const std::vector<FeedDeclaration>& feeds) {
  std::set<int> whole;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const FeedDeclaration& feed = feeds[i];
    const bool scalar = !feed.shape.unknown_rank() && feed.shape.dims() == 0;
    if (scalar || feed.division == FeedDeclaration::Division::kReplicate) {
      whole.insert(static_cast<int>(i));
    }
  }
  return whole;
}

std::optional<RowsOfRun> DeclaredRows(const std::vector<FeedDeclaration>& feeds) {
  using Division = FeedDeclaration::Division;
  RowsOfRun rows;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const FeedDeclaration& feed = feeds[i];
    if (feed.division == Division::kSparse && feed.sparse.has_value()) {
      const SparseParts& parts = *feed.sparse;
      if (static_cast<int>(i) != parts.shape) continue;
      rows.sparse.push_back({feeds[parts.indices].name, feeds[parts.values].name,
                             feeds[parts.shape].name});
      continue;
    }
    if (feed.division == Division::kReplicate) {
      rows.feeds.push_back({feed.name, false, std::nullopt});
      continue;
    }
    if (feed.shape.unknown_rank()) return std::nullopt;
    const int rank = feed.shape.dims();
    const bool divided = rank > 0 && (feed.division == Division::kShard ||
                                      feed.any_rows || feed.shape.dim_size(0) < 0);
    rows.feeds.push_back({feed.name, divided, rank});
  }
  return rows;
}

RowsOfRun PlannedRows(const std::vector<FeedDeclaration>& declarations,
                      const FeedPlan& plan, const std::vector<tf::Tensor>& feeds) {
  RowsOfRun rows;
  std::set<int> sparse;
  for (const SparseParts& parts : plan.sparse) {
    rows.sparse.push_back({declarations[parts.indices].name,
                           declarations[parts.values].name,
                           declarations[parts.shape].name});
    sparse.insert({parts.indices, parts.values, parts.shape});
  }
  for (size_t i = 0; i < declarations.size(); ++i) {
    if (sparse.count(static_cast<int>(i)) > 0) continue;
    const bool whole =
        declarations[i].division == FeedDeclaration::Division::kReplicate;
    rows.feeds.push_back({declarations[i].name, plan.divided[i],
                          whole ? std::nullopt : std::make_optional(feeds[i].dims())});
    if (!plan.divided[i] || !declarations[i].shape.unknown_rank()) continue;
    for (int d = 1; d < feeds[i].dims(); ++d) {
      rows.feeds.back().of_row.push_back(feeds[i].dim_size(d));
    }
  }
  return rows;
}

namespace {

using How = FetchRule::How;

// Returns the rule for counts of rows; nullopt if they are no multiples of their
// powers.
std::optional<FetchRule> RuleForCounts(const RowType& type, const SizeTable& sizes) {
  if (!type.numbers.has_value()) return std::nullopt;
  FetchRule rule;
  rule.how = How::kCounts;
  for (Size number : *type.numbers) {
    const std::optional<int> degree = sizes.Degree(number);
    if (!degree.has_value() || (*degree != 1 && !sizes.HasFedRowsOnly(number))) {
      return std::nullopt;
    }
    rule.powers.push_back(*degree);
  }
  return rule;
}

}  // namespace

std::optional<FetchRule> RuleForFetch(const RowType& type, const SizeTable& sizes,
                                      bool estimates) {
  using Kind = SizeTable::PartInfo::Kind;
  const auto rule = [&type](How how) {
    return FetchRule{how, std::max(0, type.axis), type.exponent, {}};
  };
  const Kind part = sizes.Info(type.part).kind;
  switch (type.kind) {
    case RowKind::kSame:
      return rule(estimates ? How::kEstimates : How::kFirst);
    case RowKind::kZero:
      return rule(How::kFirst);
    case RowKind::kRows:
      if (part == Kind::kRepeated || part == Kind::kConcatenated ||
          type.own.kind != OwnPlaces::Kind::kNone) {
        return std::nullopt;
      }
      return rule(How::kRows);
    case RowKind::kSum:
      return rule(How::kSum);
    case RowKind::kMax:
      return rule(How::kMax);
    case RowKind::kMin:
      return rule(How::kMin);
    case RowKind::kAll:
      return rule(How::kAll);
    case RowKind::kAny:
      return rule(How::kAny);
    case RowKind::kSizes:
      return RuleForCounts(type, sizes);
    default:
      return std::nullopt;
  }
}

absl::StatusOr<FetchRule> CombinationOf(const std::string& tensor,
                                        const RowTypes& types, bool estimates) {
  const RowType* const type = types.Find(Canonical(tensor));
  if (type == nullptr) return absl::InternalError(absl::StrCat(tensor, " has no type"));
  const auto rule = RuleForFetch(*type, *types.sizes, estimates);
  if (rule.has_value()) return *rule;
  if (type->unknown()) return absl::InvalidArgumentError(Describe(*type->why));
  return absl::InvalidArgumentError(absl::StrCat("learners' values of fetch '", tensor,
                                                 "' cannot be combined: it is ",
                                                 Describe(*type, *types.sizes)));
}

absl::Status SetFetchRules(const RowTypes& types, bool estimates,
                           CompiledProgram* program) {
  for (FetchSource& fetch : program->fetches) {
    FetchDeclaration& declaration = fetch.declaration;
    if (fetch.task_fetch < 0 || declaration.combination.has_value()) continue;
    if (types.Find(Canonical(declaration.name)) == nullptr) continue;  // it is a feed
    TF_ASSIGN_OR_RETURN(declaration.rule,
                        CombinationOf(declaration.name, types, estimates));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
