#include "cc/program/compiler.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/graph/element_types.h"
#include "cc/graph/graph_dump.h"
#include "cc/graph/run_graph.h"
#include "cc/learner/random_state.h"
#include "cc/learner/specialise.h"
#include "cc/passes/pipeline.h"
#include "cc/passes/task/build_task.h"
#include "cc/passes/task/fold_shapes.h"
#include "cc/program/deferred_fetches.h"
#include "cc/program/run_rules.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The runs of the same shapes after which they get a graph. A recording saves more than
// folded shapes do, which repay their graph in some hundred runs.
constexpr int kRunsOnAccelerators = 3;
constexpr int kRunsOnCpus = 300;
// The largest task that gets graphs for shapes, in ops and in bytes of its constants,
// of which each graph has a copy. A larger one's step would be long, once, for little.
constexpr int kMostOps = 1000;
constexpr size_t kMostConstants = 1 << 20;

bool IsSmall(const TaskGraph& task) {
  int ops = 0;
  size_t bytes = 0;
  for (const TaskPart& part : task.parts) {
    ops += part.graph->num_op_nodes();
    for (const tf::Node* node : part.graph->op_nodes()) {
      if (!node->IsConstant()) continue;
      const tf::AttrValue* const value = node->attrs().Find("value");
      if (value != nullptr) bytes += value->tensor().tensor_content().size();
    }
  }
  return ops <= kMostOps && bytes <= kMostConstants;
}

// Returns the average of the gradients that a task sends to the other hosts.
std::shared_ptr<HostGradients> NewHostGradients(const Options& options,
                                                const TaskTraits& traits) {
  std::vector<HostGradients::Gradient> gradients;
  for (const SentGradient& gradient : traits.sent) {
    gradients.push_back({ElementTypeOf(gradient.type), gradient.size});
  }
  return std::make_shared<HostGradients>(options.hosts.get(), gradients,
                                         options.host_chunks);
}

// Writes the feeds, fetches and graphs of all learners.
void Dump(const CompiledProgram& program, const LearnerPrograms& learners) {
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
  for (const FetchSource& fetch : program.fetches) {
    const FetchDeclaration& declared = fetch.declaration;
    absl::StrAppend(
        &text, "fetch ", declared.name,
        declared.leading_dimension_unknown ? " leading_dimension_unknown" : "",
        " combination ",
        declared.combination.has_value() ? static_cast<int>(*declared.combination) : -1,
        " task_fetch ", fetch.task_fetch, " variable ",
        fetch.variable.has_value() ? fetch.variable->name() : "",
        fetch.deferred ? " deferred" : "", "\n");
  }
  const TaskTraits& traits = program.traits;
  absl::StrAppend(&text, "task ", KeyOf(program.task), "\nrows_fetch ",
                  program.rows_fetch, "\nnum_gradients ", traits.num_gradients,
                  "\nshared ", absl::StrJoin(traits.shared, " "),
                  "\nhidden_random_ops ", absl::StrJoin(program.hidden_random_ops, " "),
                  "\ncorrects_itself ", absl::StrJoin(traits.corrects_itself, " "),
                  "\nexchanges ", traits.exchanges, " estimates ", traits.estimates,
                  "\n");
  for (size_t j = 0; j < learners.tasks.size(); ++j) {
    for (const TaskPart& part : learners.tasks[j]->task().parts) {
      absl::StrAppend(&text, "learner ", j, "\n", SortedText(*part.graph));
    }
  }
  DumpText("learners", text);
}

// Returns whether any feed has rows that learners divide.
bool HasRows(const RowsOfRun& rows) {
  return !rows.sparse.empty() ||
         std::any_of(rows.feeds.begin(), rows.feeds.end(),
                     [](const FeedOfRows& feed) { return feed.divided; });
}

// Returns whether the user has named all feeds that are divided.
bool AllNamed(const std::vector<FeedDeclaration>& feeds, const RowsOfRun& rows,
              const Options& options) {
  for (const FeedOfRows& row : rows.feeds) {
    if (row.divided && options.shard.count(row.tensor) == 0) return false;
  }
  return std::all_of(feeds.begin(), feeds.end(), [](const FeedDeclaration& feed) {
    return !feed.sparse.has_value() || feed.named;
  });
}

}  // namespace

CompileInput Compiler::InputFor(const RunToCompile& run,
                                Traits::Averages averages) const {
  CompileInput in(run.spec, run.analysis, options_);
  in.averages = averages;
  in.alone = is_alone();
  in.may_divide = learners_.size() > 1 || options_.rows_of_batch() > 0;
  in.on_accelerators = learners_.accelerators() != nullptr;
  if (averages == Traits::Averages::kGradients && !in.on_accelerators) {
    in.exchanging = !options_.divides_batches() ? Exchanging::kOwnBatches
                    : options_.num_hosts() > 1  ? Exchanging::kGradients
                                                : Exchanging::kAll;
  }
  in.threads = learners_.layout().threads;
  in.shapes = run.shapes;
  in.optimise = [this](TaskGraph* task) { learners_[0].Optimise(task); };
  in.agree = agree_;
  return in;
}

absl::Status Compiler::ChooseRows(const RunToCompile& run, CompiledProgram* program,
                                  CompileInput* in) const {
  if (!in->may_divide || !options_.proof) return absl::OkStatus();
  program->rows = run.rows != nullptr ? std::make_optional(*run.rows)
                                      : DeclaredRows(program->feeds);
  program->awaits_feeds = !program->rows.has_value();
  if (program->awaits_feeds) {
    program->rows.emplace();
  } else if (HasRows(*program->rows)) {
    in->rows = &*program->rows;
  } else if (in->exchanging == Exchanging::kAll && options_.divides_elements()) {
    // All learners would do the same, or each would act on its own.
    return absl::InvalidArgumentError(
        "neither its feeds nor what it takes from a pipeline have rows");
  }
  return absl::OkStatus();
}

absl::Status Compiler::PlaceTyped(CompileInput in, const ProgramGraph& users_graph,
                                  ProgramDraft* draft, CompiledProgram* program) const {
  const ProgramDraft before = *draft;
  TF_ASSIGN_OR_RETURN(Deferral deferral,
                      Deferral::Of(users_graph, before.graph(), *program));
  const RunSpec all = in.spec;
  for (;;) {
    in.spec = deferral.Rest(all);
    TaskTraits traits = program->traits;
    *draft = before;
    TF_RETURN_IF_ERROR(ExchangePipeline().RunOnProgram(in, draft, &traits));
    const auto types = traits.types;
    if (in.exchanging == Exchanging::kAll && deferral.Extend(*types)) continue;
    TF_RETURN_IF_ERROR(deferral.Apply(*types, program));
    program->traits = std::move(traits);
    return SetFetchRules(*types, program->traits.estimates, program);
  }
}

absl::Status Compiler::PlaceExchanges(const CompileInput& in,
                                      const ProgramGraph& users_graph,
                                      ProgramDraft* draft,
                                      CompiledProgram* program) const {
  if (in.rows == nullptr) {
    return ExchangePipeline().RunOnProgram(in, draft, &program->traits);
  }
  const ProgramDraft before = *draft;
  const CompiledProgram untouched = *program;
  const absl::Status placed = PlaceTyped(in, users_graph, draft, program);
  if (placed.ok() || !absl::IsInvalidArgument(placed)) return placed;
  if (in.exchanging == Exchanging::kAll) {
    CompileInput lowered = in;
    lowered.lowers_conditionals = true;
    *draft = before;
    *program = untouched;
    if (PlaceTyped(lowered, users_graph, draft, program).ok()) return absl::OkStatus();
  }
  const bool takes_own = in.analysis.takes_data && !options_.divides_elements();
  if (!takes_own && !AllNamed(program->feeds, *program->rows, options_)) {
    const bool averages_models = in.averages == Traits::Averages::kModels;
    const char* const advice =
        averages_models ? ". Options(shard=[...]) with all feeds that have one row per "
                          "sample divides them all the same"
                        : "";
    return absl::InvalidArgumentError(
        absl::StrCat("its rows cannot be divided: ", placed.message(), advice));
  }
  // The user has named the divided feeds, or has said that each learner takes its own
  // data. That holds whatever the types are.
  CompileInput untyped = in;
  untyped.rows = nullptr;
  *draft = before;
  *program = untouched;
  return ExchangePipeline().RunOnProgram(untyped, draft, &program->traits);
}

absl::StatusOr<Compilation> Compiler::Compile(const RunToCompile& run,
                                              Traits::Averages averages) const {
  if (is_alone()) averages = Traits::Averages::kNothing;
  CompileInput in = InputFor(run, averages);
  if (options_.proof) {  // otherwise a batch of a fixed number of rows stays whole
    TF_ASSIGN_OR_RETURN(const auto asked, RunGraph::Of(run.graph, run.spec));
    in.fixed = FindFixedRows(*asked, options_.replicate);
  }
  Compilation made;
  made.compiled = std::make_shared<CompiledProgram>();
  CompiledProgram& program = *made.compiled;
  program.replicated = !in.alone || in.on_accelerators;
  const bool in_step = in.exchanging == Exchanging::kAll && options_.proof &&
                       options_.divides_elements();
  ProgramDraft draft(run.graph);
  TF_RETURN_IF_ERROR(ProgramPipeline().RunOnProgram(in, &draft, &program.traits));
  TF_RETURN_IF_ERROR(FindRunRules(draft.graph(), run.spec, run.sparse_feeds, in.fixed,
                                  options_, in_step, &program));
  TF_RETURN_IF_ERROR(ChooseRows(run, &program, &in));
  if (program.awaits_feeds) return made;
  TF_RETURN_IF_ERROR(PlaceExchanges(in, run.graph, &draft, &program));
  TaskGraph task;
  TF_RETURN_IF_ERROR(MakeTask(in, draft.graph(), &made, &task));
  if (in.averages == Traits::Averages::kGradients && !in.on_accelerators &&
      options_.num_hosts() > 1) {
    program.host_gradients = NewHostGradients(options_, program.traits);
  }
  TF_RETURN_IF_ERROR(CompileLearners(run, draft.graph(), task, &made));
  return made;
}

absl::StatusOr<LearnerPrograms::Tasks> Compiler::CompileForShapes(
    const RunToCompile& run, Traits::Averages averages,
    std::vector<TaskGraph> tasks) const {
  if (learners_.accelerators() != nullptr) {
    TF_ASSIGN_OR_RETURN(Compilation made, Compile(run, averages));
    return std::move(made.learners->tasks);
  }
  // TensorFlow's optimiser, asked again, would divide by reciprocals: other numbers.
  LearnerPrograms::Tasks compiled;
  if (!IsSmall(tasks[0])) return compiled;
  for (size_t j = 0; j < tasks.size(); ++j) {
    TF_ASSIGN_OR_RETURN(const bool folded, FoldShapes(*run.shapes, &tasks[j]));
    if (!folded) return LearnerPrograms::Tasks();
    TF_ASSIGN_OR_RETURN(compiled.emplace_back(),
                        learners_[j].Compile(std::move(tasks[j])));
  }
  return compiled;
}

absl::Status Compiler::MakeTask(CompileInput in, const ProgramGraph& graph,
                                Compilation* made, TaskGraph* task) const {
  TF_RETURN_IF_ERROR(learners_.EnsureSharedKernels(graph, in.analysis.shared_kernels));
  if (learners_.shares_random_state() && in.analysis.keeps_random_state) {
    // The learner makes the kernels, which then keep no library of functions.
    TF_RETURN_IF_ERROR(learners_.FindCentralHandle(graph));
  }
  CompiledProgram& program = *made->compiled;
  program.traits.whole_feeds = WholeFeeds(program.feeds);
  tf::DeviceSet device_set;
  const TaskDevices devices = learners_.Devices(&device_set);
  TF_RETURN_IF_ERROR(LowerTask(graph, program.task, session_options_, devices, task));
  in.accelerator = devices.accelerator;
  in.divide = [&](TaskGraph* lowered) {
    return DivideTask(graph, program.task, session_options_, devices, lowered);
  };
  return TaskPipeline().RunOnTask(in, task, &program.traits);
}

absl::Status Compiler::CompileLearners(const RunToCompile& run,
                                       const ProgramGraph& graph, const TaskGraph& task,
                                       Compilation* made) const {
  CompiledProgram& program = *made->compiled;
  made->learners = std::make_unique<LearnerPrograms>(ShapeCounts(
      learners_.accelerators() != nullptr ? kRunsOnAccelerators : kRunsOnCpus));
  for (int j = 0; j < learners_.size(); ++j) {
    Specialisation specialisation;
    specialisation.learner = j;
    specialisation.random_stream =
        j + (options_.hosts == nullptr ? 0 : options_.hosts->rank() * learners_.size());
    specialisation.own_variables = program.replicated;
    specialisation.shared_variables = program.traits.shared;
    specialisation.own_random_state = !learners_.shares_random_state();
    specialisation.seed = options_.seed;
    TF_ASSIGN_OR_RETURN(TaskGraph own, SpecialiseTaskGraph(task, specialisation));
    TF_ASSIGN_OR_RETURN(std::unique_ptr<Learner::Program> compiled,
                        learners_[j].Compile(std::move(own)));
    made->learners->tasks.push_back(std::move(compiled));
  }
  program.hidden_random_ops = HiddenRandomState(made->learners->tasks[0]->task());
  Dump(program, *made->learners);
  if (!program.replicated ||
      options_.restart != Options::Restart::kOnLearningRateDrop) {
    return absl::OkStatus();
  }
  return made->learners->rates.Compile(graph, program.task.feeds,
                                       run.analysis.learning_rates, session_options_,
                                       &learners_);
}

}  // namespace tensorbow
