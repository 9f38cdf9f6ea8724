#include "cc/program/learning_program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/graph/acyclic.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/element_types.h"
#include "cc/graph/graph_dump.h"
#include "cc/graph/op_kinds.h"
#include "cc/graph/shapes.h"
#include "cc/learner/random_state.h"
#include "cc/learner/specialise.h"
#include "cc/passes/program/batch_elements.h"
#include "cc/passes/program/cut_at_element.h"
#include "cc/passes/task/build_task.h"
#include "cc/passes/task/exchange_moments.h"
#include "cc/passes/task/fuse_products.h"
#include "cc/passes/task/fuse_sparse_adam.h"
#include "cc/passes/task/fuse_sparse_products.h"
#include "cc/passes/task/fuse_updates.h"
#include "cc/passes/task/onednn.h"
#include "cc/passes/task/reduce_gradients.h"
#include "cc/passes/task/send_gradients.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Tensors whose leading dimension tells how many rows of data a task took from an
// input pipeline. A queue's are known to have one, whatever their static shape. Those
// in control flow are left out: a task may not have them.
struct RowSource {
  std::string tensor;
  bool has_rows;
};
std::vector<RowSource> RowSources(const ProgramGraph& graph,
                                  const std::vector<const tf::NodeDef*>& nodes) {
  std::vector<RowSource> sources;
  for (const tf::NodeDef* node : nodes) {
    const char* types = nullptr;
    bool has_rows = false;
    if (node->op() == kIteratorGetRows ||
        (absl::StartsWith(node->op(), "IteratorGetNext") &&
         node->op() != "IteratorGetNextAsOptional")) {
      types = "output_types";
    } else if (absl::StartsWith(node->op(), "QueueDequeueMany") ||
               absl::StartsWith(node->op(), "QueueDequeueUpTo")) {
      types = "component_types";
      has_rows = true;
    } else {
      continue;
    }
    if (LiesInControlFlow(graph, node->name())) continue;
    const int outputs = node->attr().at(types).list().type_size();
    for (int i = 0; i < outputs; ++i) {
      sources.push_back({absl::StrCat(node->name(), ":", i), has_rows});
    }
  }
  return sources;
}

// The first of them that a run does not feed and that has rows; null if none. `shapes`:
// of all of them.
const RowSource* FindRowSource(
    const std::vector<RowSource>& sources, const RunSpec& spec,
    const std::map<std::string, tf::PartialTensorShape>& shapes) {
  for (const RowSource& source : sources) {
    const tf::PartialTensorShape& shape = shapes.at(source.tensor);
    if (!source.has_rows && (shape.unknown_rank() || shape.dims() == 0)) continue;
    if (std::count(spec.feeds.begin(), spec.feeds.end(), source.tensor) > 0) continue;
    return &source;
  }
  return nullptr;
}

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

// How a feed is divided. `used`: the tensors that the run needs.
FeedDeclaration Declare(const RunSpec& spec, const std::string& name,
                        const tf::PartialTensorShape& shape,
                        const SparseFeeds& sparse_feeds,
                        const std::set<std::string>& used, const Options& options) {
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
  if (sparse == sparse_feeds.end() && any(options.shard)) {
    feed.division = Division::kShard;
  } else if (any(options.replicate) || !any(used)) {
    feed.division = Division::kReplicate;
  } else if (sparse != sparse_feeds.end()) {
    feed.division = Division::kSparse;
    LocateParts(spec, sparse->second, options, &feed);
  }
  return feed;
}

}  // namespace

absl::Status DissectRun(const ProgramGraph& graph, const RunSpec& spec,
                     const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                     const Options& options, bool replicated,
                     LearningProgram* program) {
  program->replicated = replicated;
  program->task_spec.feeds = spec.feeds;
  program->task_spec.targets = spec.targets;

  std::vector<const tf::NodeDef*> nodes;
  TF_RETURN_IF_ERROR(graph.Needed(spec, &nodes));
  const std::vector<RowSource> row_sources = RowSources(graph, nodes);
  RunSpec described = spec;
  for (const RowSource& source : row_sources) {
    described.fetches.push_back(source.tensor);
  }
  const auto shapes = InferShapes(graph, described);

  // Programs feed more than a run needs; what it does not use says nothing about rows.
  std::set<std::string> used(spec.fetches.begin(), spec.fetches.end());
  for (const tf::NodeDef* node : nodes) {
    for (const std::string& input : node->input()) {
      const TensorName tensor = ParseTensor(input);
      if (!tensor.control) used.insert(absl::StrCat(tensor.node, ":", tensor.index));
    }
  }
  for (const std::string& name : spec.feeds) {
    tf::PartialTensorShape shape = shapes.at(name);
    const bool any_rows = fixed.feeds.count(name) > 0;
    if (any_rows && !shape.unknown_rank()) shape.set_dim(0, fixed.rows);
    FeedDeclaration feed = Declare(spec, name, shape, sparse_feeds, used, options);
    feed.any_rows = any_rows;
    const tf::NodeDef* const producer = graph.Find(ParseTensor(name).node);
    feed.of_pipeline = producer != nullptr &&
                       (producer->op() == kElement || TakesData(producer->op()));
    program->feeds.push_back(std::move(feed));
  }
  for (const std::string& name : spec.fetches) {
    LearningProgram::Fetch fetch;
    fetch.declaration.name = name;
    const tf::PartialTensorShape& shape = shapes.at(name);
    fetch.declaration.leading_dimension_unknown =
        shape.unknown_rank() || (shape.dims() > 0 && shape.dim_size(0) < 0);
    const auto chosen = options.combine.find(name);
    if (chosen != options.combine.end()) {
      fetch.declaration.combination = chosen->second;
    } else if (replicated) {
      std::vector<std::string>* const targets = &program->task_spec.targets;
      const std::string variable = VariableReadBy(graph, name, targets);
      if (!variable.empty()) fetch.variable = graph.Find(variable);
    }
    if (fetch.variable == nullptr) {
      fetch.task_fetch = static_cast<int>(program->task_spec.fetches.size());
      program->task_spec.fetches.push_back(name);
    }
    program->fetches.push_back(std::move(fetch));
  }
  if (const RowSource* source = FindRowSource(row_sources, spec, shapes)) {
    program->rows_fetch = static_cast<int>(program->task_spec.fetches.size());
    program->task_spec.fetches.push_back(source->tensor);
  }
  return absl::OkStatus();
}

namespace {

// The feeds that every learner has whole, whatever is fed: scalars.
std::set<int> WholeFeeds(const LearningProgram& program) {
  std::set<int> whole;
  for (size_t i = 0; i < program.feeds.size(); ++i) {
    const FeedDeclaration& feed = program.feeds[i];
    const bool scalar = !feed.shape.unknown_rank() && feed.shape.dims() == 0;
    if (scalar || feed.division == FeedDeclaration::Division::kReplicate) {
      whole.insert(static_cast<int>(i));
    }
  }
  return whole;
}

// Brings the updates of a task under the synchroniser.
absl::Status FuseTask(const RunAnalysis& analysis, Traits::Averages averages,
                      Averaging averaging, int threads, LearningProgram* program,
                      TaskGraph* task) {
  std::vector<std::string> trained;
  for (const auto& [name, use] : analysis.variables) {
    if (use.trained) trained.push_back(name);
  }
  const bool averages_models = averages == Traits::Averages::kModels;
  const auto fuses = [averages_models](const tf::Node& update) {
    return averages_models || IsOfGradient(update);
  };
  TF_ASSIGN_OR_RETURN(program->corrects_itself, FuseUpdates(trained, fuses, task));
  if (!averages_models) {
    TF_ASSIGN_OR_RETURN(
        program->num_gradients,
        ReduceGradients(trained, WholeFeeds(*program), program->averaged, averaging,
                        task));
  }
  TF_RETURN_IF_ERROR(FuseSparseProducts(OwnUpdates::kKeep, task));
  // A fused product is computed on one thread.
  if (threads != 1) return absl::OkStatus();
  return FuseProducts(/*with_input_gradients=*/averages_models, task);
}

// Has the task send its gradients to the other hosts.
absl::Status SendToHosts(const Options& options, LearningProgram* program,
                         TaskGraph* task) {
  TF_ASSIGN_OR_RETURN(const std::vector<SentGradient> sent,
                      SendGradients(task, &program->num_gradients));
  std::vector<HostGradients::Gradient> gradients;
  for (const SentGradient& gradient : sent) {
    gradients.push_back({ElementTypeOf(gradient.type), gradient.size});
  }
  program->host_gradients = std::make_shared<HostGradients>(
      options.hosts.get(), gradients, options.host_chunks);
  return absl::OkStatus();
}

// Writes the feeds, fetches and graphs of all learners.
void Dump(const LearningProgram& program) {
  if (!DumpsGraphs()) return;
  std::string text;
  for (const FeedDeclaration& feed : program.feeds) {
    absl::StrAppend(&text, "feed ", feed.name, " ", feed.shape.DebugString(), " ",
                    static_cast<int>(feed.division), feed.named ? " named" : "",
                    feed.of_pipeline ? " of_pipeline" : "",
                    feed.any_rows ? " any_rows" : "");
    if (feed.sparse.has_value()) {
      absl::StrAppend(&text, " sparse ", feed.sparse->indices, " ", feed.sparse->values,
                      " ", feed.sparse->shape);
    }
    absl::StrAppend(&text, "\n");
  }
  for (const LearningProgram::Fetch& fetch : program.fetches) {
    const FetchDeclaration& declared = fetch.declaration;
    absl::StrAppend(
        &text, "fetch ", declared.name,
        declared.leading_dimension_unknown ? " leading_dimension_unknown" : "",
        " combination ",
        declared.combination.has_value() ? static_cast<int>(*declared.combination) : -1,
        " task_fetch ", fetch.task_fetch, " variable ",
        fetch.variable == nullptr ? "" : fetch.variable->name(), "\n");
  }
  absl::StrAppend(&text, "task ", KeyOf(program.task_spec), "\nrows_fetch ",
                  program.rows_fetch, "\nnum_gradients ", program.num_gradients,
                  "\nshared ", absl::StrJoin(program.shared, " "), "\nhidden_random_ops ",
                  absl::StrJoin(program.hidden_random_ops, " "), "\ncorrects_itself ",
                  absl::StrJoin(program.corrects_itself, " "), "\nown_values ",
                  program.own_values, " exchanges ", program.exchanges, "\n");
  for (size_t j = 0; j < program.learners.size(); ++j) {
    for (const auto& graph : program.learners[j]->graphs()) {
      absl::StrAppend(&text, "learner ", j, "\n", SortedText(*graph));
    }
  }
  DumpText("learners", text);
}

}  // namespace

int64_t LearningProgram::Fingerprint() const {
  std::string text;
  for (int k = 0; host_gradients != nullptr && k < host_gradients->size(); ++k) {
    absl::StrAppend(&text, host_gradients->gradient(k).size, " ");
  }
  for (const auto& [name, use] : analysis.variables) {
    absl::StrAppend(&text, name, use.trained ? " trained" : "",
                    use.written ? " written" : "", "\n");
  }
  return static_cast<int64_t>(tf::Hash64(text));
}

void LearningProgram::ForgetLearners() {
  if (set != nullptr) first_iteration = set->iterations();
  learners.clear();
  rates.ForgetLearner();
  variables.clear();
  written.clear();
  one_copy.clear();
  trained.clear();
  shared.clear();
  num_trained = -1;
  set.reset();
  only_read.clear();
  only_read_set.reset();
  measured_memory = false;
  why_central.clear();
}

std::string RowsTensor(const ProgramGraph& graph, const RunSpec& spec) {
  std::vector<const tf::NodeDef*> nodes;
  if (!graph.Needed(spec, &nodes).ok()) return "";
  const std::vector<RowSource> sources = RowSources(graph, nodes);
  RunSpec described;
  described.feeds = spec.feeds;
  for (const RowSource& source : sources) described.fetches.push_back(source.tensor);
  const RowSource* const found =
      FindRowSource(sources, spec, InferShapes(graph, described));
  return found == nullptr ? "" : found->tensor;
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
    rows.feeds.push_back(
        {declarations[i].name, plan.divided[i],
         whole ? std::nullopt : std::make_optional(feeds[i].dims())});
  }
  return rows;
}

namespace {

using How = FetchRule::How;

std::optional<How> HowOf(const RowType& type, const SizeTable& sizes,
                         bool own_values) {
  using Kind = SizeTable::PartInfo::Kind;
  const Kind part = sizes.Info(type.part).kind;
  switch (type.kind) {
    case RowKind::kSame:
      return own_values && type.of_all_rows ? How::kEstimates : How::kFirst;
    case RowKind::kZero:
      return How::kFirst;
    case RowKind::kRows:
      if (part == Kind::kRepeated || part == Kind::kConcatenated ||
          type.own.kind != OwnPlaces::Kind::kNone) {
        return std::nullopt;
      }
      return How::kRows;
    case RowKind::kSum:
      return How::kSum;
    case RowKind::kMax:
      return How::kMax;
    case RowKind::kMin:
      return How::kMin;
    case RowKind::kAll:
      return How::kAll;
    case RowKind::kAny:
      return How::kAny;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string SetFetchRules(const RowTypes& types, bool own_values,
                          LearningProgram* program) {
  for (LearningProgram::Fetch& fetch : program->fetches) {
    FetchDeclaration& declaration = fetch.declaration;
    if (fetch.variable != nullptr || declaration.combination.has_value()) continue;
    const RowType* const type = types.Find(Canonical(declaration.name));
    if (type == nullptr) continue;  // it is fed
    const std::optional<How> how = HowOf(*type, *types.sizes, own_values);
    if (how.has_value()) {
      declaration.rule = FetchRule{*how, std::max(0, type->axis), type->exponent};
      continue;
    }
    if (type->unknown()) return Describe(*type->why);
    return absl::StrCat("fetch '", declaration.name, "' is ",
                        Describe(*type, *types.sizes),
                        ", which cannot be put together");
  }
  return "";
}

absl::Status CompileLearningProgram(
    const ProgramGraph& graph, const RunAnalysis& analysis, const Options& options,
    const tf::SessionOptions& session_options, Traits::Averages averages,
    const AgreeOnSharing& agree, LearnerGroup* learners, LearningProgram* program) {
  const bool alone = learners->size() == 1 && options.num_hosts() == 1;
  const bool replicated = program->replicated;
  program->analysis = analysis;
  TF_RETURN_IF_ERROR(learners->EnsureSharedKernels(graph, analysis.shared_kernels));
  if (learners->shares_random_state() && analysis.keeps_random_state) {
    // The learner makes the kernels: they keep no library of functions.
    TF_RETURN_IF_ERROR(learners->FindCentralHandle(graph));
  }

  tf::DeviceSet device_set;
  TaskGraph task;
  TF_RETURN_IF_ERROR(BuildTaskGraph(graph, program->task_spec, session_options,
                                    learners->Devices(&device_set), &task));
  if (!alone) UseOneDnn(&task);  // one learner computes what a stock session does
  (*learners)[0].Optimise(&task);
  TF_RETURN_IF_ERROR(FuseSparseAdam(&task));
  if (averages == Traits::Averages::kModels ||
      averages == Traits::Averages::kGradients) {
    const Averaging averaging =
        options.num_hosts() > 1 ? Averaging::kBefore : Averaging::kInUpdates;
    TF_RETURN_IF_ERROR(FuseTask(analysis, averages, averaging,
                                learners->layout().threads, program, &task));
  } else {
    // One learner computes what a stock session does.
    TF_RETURN_IF_ERROR(FuseSparseProducts(
        alone ? OwnUpdates::kFuseWithSameBits : OwnUpdates::kFuse, &task));
  }
  if (averages == Traits::Averages::kGradients && learners->accelerators() == nullptr) {
    program->shared = agree(FindSharableVariables(task));
    TF_RETURN_IF_ERROR(ShareVariables(program->shared, &task, &program->num_gradients));
    if (options.num_hosts() > 1) {
      TF_RETURN_IF_ERROR(SendToHosts(options, program, &task));
    } else if (program->exchanges) {
      TF_RETURN_IF_ERROR(ExchangeMoments(&task, &program->num_gradients));
    }
  }
  for (const auto& part : task.parts) {
    TF_RETURN_IF_ERROR(CheckAcyclic(*part.graph));
  }
  for (int j = 0; j < learners->size(); ++j) {
    Specialisation specialisation;
    specialisation.learner = j;
    if (options.hosts != nullptr) {
      specialisation.random_stream = options.hosts->rank() * learners->size() + j;
    } else {
      specialisation.random_stream = j;
    }
    specialisation.own_variables = replicated;
    specialisation.shared_variables = program->shared;
    specialisation.own_random_state = !learners->shares_random_state();
    specialisation.seed = options.seed;
    std::unique_ptr<Learner::Program> learner_program;
    TF_RETURN_IF_ERROR((*learners)[j].Compile(task, specialisation, &learner_program));
    program->learners.push_back(std::move(learner_program));
  }
  program->hidden_random_ops = HiddenRandomState(program->learners[0]->graphs());
  Dump(*program);
  if (!replicated) return absl::OkStatus();
  if (options.restart != Options::Restart::kOnLearningRateDrop) return absl::OkStatus();
  return program->rates.Compile(graph, program->task_spec.feeds,
                                analysis.learning_rates, session_options, learners);
}

}  // namespace tensorbow
