#include "cc/program/learning_program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/graph/acyclic.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/element_types.h"
#include "cc/graph/graph_dump.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/run_graph.h"
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
#include "cc/rewrite/average_at_loss.h"
#include "tensorflow/core/platform/hash.h"

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

// Finds the parts of a run: how its feeds are divided, which fetches are variables,
// where rows are counted.
absl::Status Dissect(const ProgramGraph& graph, const RunSpec& spec,
                     const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                     const Options& options, bool replicated,
                     LearningProgram* program) {
  program->task_spec.feeds = spec.feeds;
  program->task_spec.targets = spec.targets;

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
    LearningProgram::Fetch fetch;
    fetch.declaration.name = name;
    const tf::PartialTensorShape& shape = run->Shape(name);
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
  const std::string rows = run->RowsTensor();
  if (!rows.empty()) {
    program->rows_fetch = static_cast<int>(program->task_spec.fetches.size());
    program->task_spec.fetches.push_back(rows);
  }
  return absl::OkStatus();
}

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
        ReduceGradients(trained, WholeFeeds(*program), averaging, task));
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
                  "\nshared ", absl::StrJoin(program.shared, " "), "\nsame_fetches ",
                  absl::StrJoin(program.same_fetches, " "), "\nhidden_random_ops ",
                  absl::StrJoin(program.hidden_random_ops, " "), "\ncorrects_itself ",
                  absl::StrJoin(program.corrects_itself, " "), "\nsums ", program.sums,
                  " meets ", program.meets, " own_moments ", program.own_moments, "\n");
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
  if (divisions != nullptr) divisions->Forget();
}

absl::Status CheckGradients(const RunToCompile& run, const Options& options,
                            const tf::SessionOptions& session_options,
                            LearnerGroup* learners, LearningProgram* alone) {
  const std::unique_ptr<TaskGraph> built = std::move(alone->built);
  const auto fuse = [&](LearningProgram* program, TaskGraph* task) -> absl::Status {
    TF_RETURN_IF_ERROR(FuseSparseAdam(task));
    return FuseTask(run.analysis, Traits::Averages::kGradients, Averaging::kInUpdates,
                    learners->layout().threads, program, task);
  };
  const auto check = [&](const ProgramGraph& graph) -> absl::Status {
    LearningProgram program;
    TF_RETURN_IF_ERROR(Dissect(graph, run.spec, /*sparse_feeds=*/{}, /*fixed=*/{},
                               options, /*replicated=*/true, &program));
    if (&graph == &run.graph && built != nullptr) {
      // A lone learner fetches variables, too, which may be in the way of fusing.
      const absl::Status status = fuse(&program, built.get());
      if (!absl::IsInvalidArgument(status) ||
          KeyOf(program.task_spec) == KeyOf(alone->task_spec)) {
        return status;
      }
    }
    tf::DeviceSet device_set;
    TaskGraph task;
    TF_RETURN_IF_ERROR(BuildTaskGraph(graph, program.task_spec, session_options,
                                      learners->Devices(&device_set), &task));
    return fuse(&program, &task);
  };
  const absl::Status in_updates = check(run.graph);
  if (!absl::IsInvalidArgument(in_updates)) return in_updates;
  const auto gradients = FindGradientsAtLoss(run.graph, run.spec, run.analysis).dense;
  if (gradients.empty()) return in_updates;
  ProgramGraph at_loss;
  TF_RETURN_IF_ERROR(AverageAtLoss(run.graph, run.spec, gradients, &at_loss));
  return check(at_loss);
}

absl::Status CompileLearningProgram(
    const ProgramGraph& graph, const RunSpec& spec, const RunAnalysis& analysis,
    const SparseFeeds& sparse_feeds, const FixedRows& fixed, const Options& options,
    const tf::SessionOptions& session_options, Traits::Averages averages,
    const AgreeOnSharing& agree, LearnerGroup* learners, LearningProgram* program) {
  const bool alone = learners->size() == 1 && options.num_hosts() == 1;
  const bool replicated = !alone || learners->accelerators() != nullptr;
  program->replicated = replicated;
  TF_RETURN_IF_ERROR(
      Dissect(graph, spec, sparse_feeds, fixed, options, replicated, program));
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
  if (alone && averages == Traits::Averages::kNothing) {
    program->built = std::make_unique<TaskGraph>(CopyOf(task));
  }
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
    } else if (program->meets) {
      TF_ASSIGN_OR_RETURN(const bool all, NormaliseTogether(program->sums, &task,
                                                            &program->num_gradients));
      program->own_moments |= !all;
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
