#include "cc/program/compiler.h"

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
#include "cc/passes/exchange_passes.h"
#include "cc/passes/pipeline.h"
#include "cc/passes/task/build_task.h"
#include "cc/program/run_rules.h"
#include "cc/rewrite/average_at_loss.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

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
  for (const FetchRule& fetch : program.fetches) {
    const FetchDeclaration& declared = fetch.declaration;
    absl::StrAppend(
        &text, "fetch ", declared.name,
        declared.leading_dimension_unknown ? " leading_dimension_unknown" : "",
        " combination ",
        declared.combination.has_value() ? static_cast<int>(*declared.combination) : -1,
        " task_fetch ", fetch.task_fetch, " variable ",
        fetch.variable.has_value() ? fetch.variable->name() : "", "\n");
  }
  const TaskTraits& traits = program.traits;
  absl::StrAppend(&text, "task ", KeyOf(program.task), "\nrows_fetch ",
                  program.rows_fetch, "\nnum_gradients ", traits.num_gradients,
                  "\nshared ", absl::StrJoin(traits.shared, " "), "\nsame_fetches ",
                  absl::StrJoin(traits.same_fetches, " "), "\nhidden_random_ops ",
                  absl::StrJoin(program.hidden_random_ops, " "), "\ncorrects_itself ",
                  absl::StrJoin(traits.corrects_itself, " "), "\nsums ", traits.sums,
                  " meets ", traits.meets, " own_moments ", traits.own_moments, "\n");
  for (size_t j = 0; j < learners.tasks.size(); ++j) {
    for (const auto& graph : learners.tasks[j]->graphs()) {
      absl::StrAppend(&text, "learner ", j, "\n", SortedText(*graph));
    }
  }
  DumpText("learners", text);
}

}  // namespace

CompileInput Compiler::InputFor(const RunToCompile& run,
                                Traits::Averages averages) const {
  CompileInput in(run.spec, run.analysis, options_);
  in.averages = averages;
  in.alone = is_alone();
  in.may_divide = learners_.size() > 1 || options_.rows_of_batch() > 0;
  in.on_accelerators = learners_.accelerators() != nullptr;
  // Elements that learners take themselves are batches of their own.
  in.may_exchange = options_.divides_batches() && !run.analysis.takes_data &&
                    !run.analysis.calls_take_data && options_.num_hosts() == 1 &&
                    !in.on_accelerators;
  in.threads = learners_.layout().threads;
  in.sums = run.adjustments.sums;
  in.exchanges = run.adjustments.meetings;
  in.optimise = [this](TaskGraph* task) { learners_[0].Optimise(task); };
  in.agree = agree_;
  return in;
}

absl::StatusOr<Compilation> Compiler::Compile(const RunToCompile& run,
                                              Traits::Averages averages) const {
  if (is_alone()) averages = Traits::Averages::kNothing;
  CompileInput in = InputFor(run, averages);
  if (options_.proof) {  // else nothing divides one batch of a fixed number of rows
    TF_ASSIGN_OR_RETURN(const auto asked, RunGraph::Of(run.graph, run.spec));
    in.fixed = FindFixedRows(*asked, options_.replicate);
  }
  if (averages != Traits::Averages::kGradients) {
    return CompileFor(run, std::move(in), /*transforms_own=*/false);
  }
  const GradientsAtLoss gradients =
      FindGradientsAtLoss(run.graph, run.spec, run.analysis);
  // If the optimiser takes gradients untransformed, the update averages: it is cheaper.
  const bool at_loss =
      gradients.transformed ||
      FollowsFromGradients(run.graph, run.spec, run.analysis, gradients.dense);
  absl::Status first;
  for (const bool averages_at_loss : {at_loss, !at_loss}) {
    if (averages_at_loss && gradients.dense.empty() && !gradients.reduced) continue;
    in.at_loss = averages_at_loss;
    // Without proofs runs are divided as they are said to be.
    const bool transforms_own =
        options_.proof &&
        (averages_at_loss ? gradients.transformed_else : gradients.transformed);
    absl::StatusOr<Compilation> made = CompileFor(run, in, transforms_own);
    if (!absl::IsInvalidArgument(made.status())) return made;
    first.Update(made.status());
  }
  return first;
}

absl::StatusOr<Compilation> Compiler::CompileFor(const RunToCompile& run,
                                                 CompileInput in,
                                                 bool transforms_own) const {
  Compilation made;
  made.compiled = std::make_shared<CompiledProgram>();
  made.compiled->replicated = !in.alone || in.on_accelerators;
  made.compiled->adjustments = run.adjustments;
  TaskTraits& traits = made.compiled->traits;
  traits.sums = !in.sums.empty();
  traits.transforms_own = transforms_own;
  made.whole = std::make_unique<ProgramDraft>(run.graph);
  TF_RETURN_IF_ERROR(ProgramPipeline().RunOnProgram(in, made.whole.get(), &traits));
  ProgramDraft executed(made.whole->graph());
  TF_RETURN_IF_ERROR(ExchangePipeline().RunOnProgram(in, &executed, &traits));
  TF_RETURN_IF_ERROR(FindRunRules(executed.graph(), run.spec, run.sparse_feeds,
                                  in.fixed, options_, made.compiled->replicated,
                                  made.compiled.get()));
  TaskGraph task;
  TF_RETURN_IF_ERROR(MakeTask(in, executed.graph(), &made, &task));
  if (in.averages == Traits::Averages::kGradients && !in.on_accelerators &&
      options_.num_hosts() > 1) {
    made.compiled->host_gradients = NewHostGradients(options_, traits);
  }
  TF_RETURN_IF_ERROR(CompileLearners(run, executed.graph(), task, &made));
  return made;
}

absl::Status Compiler::MakeTask(const CompileInput& in, const ProgramGraph& graph,
                                Compilation* made, TaskGraph* task) const {
  TF_RETURN_IF_ERROR(learners_.EnsureSharedKernels(graph, in.analysis.shared_kernels));
  if (learners_.shares_random_state() && in.analysis.keeps_random_state) {
    // The learner makes the kernels: they keep no library of functions.
    TF_RETURN_IF_ERROR(learners_.FindCentralHandle(graph));
  }
  CompiledProgram& program = *made->compiled;
  program.traits.whole_feeds = WholeFeeds(program.feeds);
  tf::DeviceSet device_set;
  TF_RETURN_IF_ERROR(BuildTaskGraph(graph, program.task, session_options_,
                                    learners_.Devices(&device_set), task));
  if (in.alone && in.averages == Traits::Averages::kNothing) {
    made->lowered = std::make_unique<TaskGraph>(CopyOf(*task));
  }
  return TaskPipeline().RunOnTask(in, task, &program.traits);
}

absl::Status Compiler::CompileLearners(const RunToCompile& run,
                                       const ProgramGraph& graph, const TaskGraph& task,
                                       Compilation* made) const {
  CompiledProgram& program = *made->compiled;
  made->learners = std::make_unique<LearnerPrograms>();
  for (int j = 0; j < learners_.size(); ++j) {
    Specialisation specialisation;
    specialisation.learner = j;
    specialisation.random_stream =
        j + (options_.hosts == nullptr ? 0 : options_.hosts->rank() * learners_.size());
    specialisation.own_variables = program.replicated;
    specialisation.shared_variables = program.traits.shared;
    specialisation.own_random_state = !learners_.shares_random_state();
    specialisation.seed = options_.seed;
    std::unique_ptr<Learner::Program> compiled;
    TF_RETURN_IF_ERROR(learners_[j].Compile(task, specialisation, &compiled));
    made->learners->tasks.push_back(std::move(compiled));
  }
  program.hidden_random_ops = HiddenRandomState(made->learners->tasks[0]->graphs());
  Dump(program, *made->learners);
  if (!program.replicated ||
      options_.restart != Options::Restart::kOnLearningRateDrop) {
    return absl::OkStatus();
  }
  return made->learners->rates.Compile(graph, program.task.feeds,
                                       run.analysis.learning_rates, session_options_,
                                       &learners_);
}

absl::Status Compiler::CheckGradients(const RunToCompile& run,
                                      Compilation* alone) const {
  const std::unique_ptr<TaskGraph> lowered = std::move(alone->lowered);
  CompileInput in = InputFor(run, Traits::Averages::kGradients);
  in.at_loss = true;
  const auto check = [&](const ProgramGraph& graph) -> absl::Status {
    CompiledProgram program;
    TF_RETURN_IF_ERROR(FindRunRules(graph, run.spec, /*sparse_feeds=*/{},
                                    /*fixed=*/{}, options_, /*replicated=*/true,
                                    &program));
    program.traits.whole_feeds = WholeFeeds(program.feeds);
    if (&graph == &run.graph && lowered != nullptr) {
      // A lone learner fetches variables, too, which may be in the way of fusing.
      const absl::Status status =
          GradientPipeline().RunOnTask(in, lowered.get(), &program.traits);
      if (!absl::IsInvalidArgument(status) ||
          KeyOf(program.task) == KeyOf(alone->compiled->task)) {
        return status;
      }
    }
    tf::DeviceSet device_set;
    TaskGraph task;
    TF_RETURN_IF_ERROR(BuildTaskGraph(graph, program.task, session_options_,
                                      learners_.Devices(&device_set), &task));
    return GradientPipeline().RunOnTask(in, &task, &program.traits);
  };
  const absl::Status in_updates = check(run.graph);
  if (!absl::IsInvalidArgument(in_updates)) return in_updates;
  if (FindGradientsAtLoss(run.graph, run.spec, run.analysis).dense.empty()) {
    return in_updates;
  }
  ProgramDraft draft(run.graph);
  TaskTraits traits;
  TF_RETURN_IF_ERROR(AverageAtLossPass().Run(in, &draft, &traits).status());
  return check(draft.graph());
}

}  // namespace tensorbow
