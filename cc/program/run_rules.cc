#include "cc/program/run_rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/run_graph.h"
#include "cc/passes/program/cut_at_element.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Where the parts of the sparse tensor are that a feed is one of.
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
  // What is said or true of one part of a sparse tensor is of all.
  std::vector<std::string> parts = {name};
  if (sparse != sparse_feeds.end()) {
    parts.insert(parts.end(), sparse->second.begin(), sparse->second.end());
  }
  const auto any = [&parts](const std::set<std::string>& names) {
    return std::any_of(parts.begin(), parts.end(), [&names](const std::string& part) {
      return names.count(part) > 0;
    });
  };
  // Programs feed more than a run needs; that says nothing about rows.
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

}  // namespace

absl::Status FindRunRules(const ProgramGraph& graph, const RunSpec& spec,
                          const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                          const Options& options, bool replicated,
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
    FetchRule fetch;
    fetch.declaration.name = name;
    const tf::PartialTensorShape& shape = run->Shape(name);
    fetch.declaration.leading_dimension_unknown =
        shape.unknown_rank() || (shape.dims() > 0 && shape.dim_size(0) < 0);
    const auto chosen = options.combine.find(name);
    if (chosen != options.combine.end()) {
      fetch.declaration.combination = chosen->second;
    } else if (replicated) {
      std::vector<std::string>* const targets = &program->task.targets;
      const std::string variable = VariableReadBy(graph, name, targets);
      if (!variable.empty()) fetch.variable = *graph.Find(variable);
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

}  // namespace tensorbow
