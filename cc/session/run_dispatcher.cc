#include "cc/session/run_dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cc/trainer/central_gate.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

int64_t LeadingRows(const std::vector<tf::Tensor>& feeds) {
  int64_t rows = 0;
  for (const tf::Tensor& feed : feeds) {
    if (feed.dims() > 0) rows = std::max(rows, feed.dim_size(0));
  }
  return rows;
}

// Returns what identifies a run for the tuner.
uint64_t StepOf(const Signature& signature) {
  return signature.step != 0 ? signature.step : absl::HashOf(&signature);
}

// Returns the error of a stock session for a pool of threads that it does not have.
absl::Status CheckPool(const tf::RunOptions& options, const tf::ConfigProto& config) {
  const int pools = std::max(1, config.session_inter_op_thread_pool_size());
  if (options.inter_op_thread_pool() >= -1 && options.inter_op_thread_pool() < pools) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Invalid inter_op_thread_pool: ", options.inter_op_thread_pool()));
}

}  // namespace

absl::Status RunDispatcher::NotOnManyHosts(const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("The learning run cannot be divided among the learners of this host",
                   why.empty() ? "" : ": ", why,
                   ". Hosts of a cluster have to divide it: give each one learner "
                   "(Options(learners_per_device=1)), or train on one host."));
}

absl::Status RunDispatcher::RunCentral(const Signature& signature, const Call& call) {
  std::vector<std::pair<std::string, tf::Tensor>> inputs;
  for (size_t i = 0; i < call.feeds.size(); ++i) {
    inputs.emplace_back(signature.spec.feeds[i], Aligned(call.feeds[i]));
  }
  std::vector<std::string> wanted = signature.spec.fetches;
  if (!signature.rows_tensor.empty()) wanted.push_back(signature.rows_tensor);
  tf::RunMetadata unused;
  return session_.central->Run(call.run_options, inputs, wanted, signature.spec.targets,
                               call.fetches,
                               call.metadata == nullptr ? &unused : call.metadata);
}

absl::Status RunDispatcher::RunWithElement(const Signature& signature,
                                           const Call& call) {
  const Signature& input_run = *signature.element->input_run;
  const Signature& fed_run = *signature.element->fed_run;
  std::vector<tf::Tensor> element;
  tf::RunOptions options;
  options.set_timeout_in_ms(call.run_options.timeout_in_ms());
  // Executes on this thread, unless a part of the run may wait for another.
  if (!input_run.analysis.calls_python) options.set_inter_op_thread_pool(-1);
  const Call take = {call.feeds, options, {}, &element, nullptr};
  const absl::Status taken = Run(input_run, take);
  if (absl::IsOutOfRange(taken) && session_.trainer->has_other_hosts() &&
      fed_run.program != nullptr) {
    RunRequest request;
    request.program = fed_run.program.get();
    request.feeds = &call.feeds;
    request.run_options = &call.run_options;
    request.end_of_data = taken;
    request.cancellation = session_.cancellation;
    TF_RETURN_IF_ERROR(session_.trainer->Run(request).status());
  }
  TF_RETURN_IF_ERROR(taken);

  std::vector<tf::Tensor> feeds = call.feeds;
  feeds.insert(feeds.end(), element.begin(), element.end());
  std::vector<tf::Tensor> fetched;
  Call fed = {feeds, call.run_options, call.task_rows, &fetched, call.metadata};
  bool on_one_learner = false;
  fed.feeds_element = !session_.trainer->has_other_hosts();
  fed.on_one_learner = &on_one_learner;
  TF_RETURN_IF_ERROR(Run(fed_run, fed));
  if (on_one_learner) signature.element->refused.store(true);

  // Fetches of the element itself get the tensors that were taken.
  const std::vector<std::string>& tensors = input_run.spec.fetches;
  call.fetches->clear();
  auto next = fetched.begin();
  for (const std::string& fetch : signature.spec.fetches) {
    const auto own = std::find(tensors.begin(), tensors.end(), fetch);
    call.fetches->push_back(own == tensors.end() ? std::move(*next++)
                                                 : element[own - tensors.begin()]);
  }
  return absl::OkStatus();
}

absl::Status RunDispatcher::Run(const Signature& signature, const Call& call) {
  return Run(signature, call, [&] { return RunCentral(signature, call); });
}

absl::Status RunDispatcher::Run(const Signature& signature, const Call& call,
                                const std::function<absl::Status()>& central) {
  const tf::RunOptions& options = call.run_options;
  const bool debugging = !options.debug_options().debug_tensor_watch_opts().empty();
  if (signature.for_learners() && !debugging) {
    TF_RETURN_IF_ERROR(CheckPool(options, session_.config));
  }
  const bool learning = signature.analysis.kind == RunAnalysis::Kind::kLearning;
  const std::string why_now =
      learning ? session_.trainer->central().WhyOneLearner() : "";
  if (!why_now.empty()) {
    if (session_.trainer->has_other_hosts()) return NotOnManyHosts(why_now);
    session_.warnings->WarnOfOneLearner(why_now);
    return RunOnCentral(signature, call, central);
  }
  if (signature.element != nullptr && !debugging) {
    if (signature.element->fed_run->program != nullptr &&
        !signature.element->refused.load()) {
      return RunWithElement(signature, call);
    }
    return RunOnCentral(signature, call, central);
  }
  if (signature.program != nullptr && !debugging) {
    RunRequest request;
    request.program = signature.program.get();
    request.feeds = &call.feeds;
    request.run_options = &options;
    request.task_rows = call.task_rows;
    request.feeds_element = call.feeds_element;
    request.cancellation = session_.cancellation;
    request.metadata = call.metadata;
    TF_ASSIGN_OR_RETURN(RunOutcome outcome, RunOnLearners(signature, request));
    if (auto* const executed = std::get_if<Executed>(&outcome)) {
      if (call.on_one_learner != nullptr) {
        *call.on_one_learner = executed->on_one_learner;
      }
      *call.fetches = std::move(executed->fetches);
      return absl::OkStatus();
    }
    if (call.on_one_learner != nullptr) *call.on_one_learner = true;
    if (std::get<OnCentral>(outcome).uninitialised) {
      return RunOnCentral(signature, call, central);
    }
    if (session_.trainer->has_other_hosts()) return NotOnManyHosts("");
  } else if (learning && session_.trainer->has_other_hosts()) {
    return NotOnManyHosts(debugging ? "a debugger watches it" : signature.why_central);
  }
  const bool tunes = session_.options.tunes_learners && learning && !debugging &&
                     signature.analysis.central_only.empty();
  if (!tunes) return RunOnCentral(signature, call, central);
  // A single learner may be faster: it unrolls loops and fuses updates.
  const Layout layout = session_.trainer->layout();
  const absl::Time begin = absl::Now();
  TF_RETURN_IF_ERROR(RunOnCentral(signature, call, central));
  session_.tuning->Record(StepOf(signature), layout, LeadingRows(call.feeds),
                          absl::ToDoubleSeconds(absl::Now() - begin));
  return absl::OkStatus();
}

absl::StatusOr<RunOutcome> RunDispatcher::RunOnLearners(const Signature& signature,
                                                        const RunRequest& request) {
  Trainer* const trainer = session_.trainer;
  const bool tunes = session_.options.tunes_learners;
  const bool may_give_up = tunes && session_.tuning->on_accelerators();
  for (;;) {
    const Layout layout = may_give_up ? trainer->layout() : Layout();
    const int64_t iterations = may_give_up ? trainer->iterations() : 0;
    const absl::Time begin = absl::Now();
    absl::StatusOr<RunOutcome> outcome = trainer->Run(request);
    if (outcome.ok()) {
      if (const auto* const stale = std::get_if<Stale>(&*outcome)) {
        Recompile(signature, stale->rows.has_value() ? &*stale->rows : nullptr);
        continue;
      }
      if (const auto* const recurring = std::get_if<Recurring>(&*outcome)) {
        CompileForShapes(signature, recurring->shapes);
        continue;
      }
      if (std::holds_alternative<Again>(*outcome)) continue;
      auto* const executed = std::get_if<Executed>(&*outcome);
      if (executed != nullptr) TF_RETURN_IF_ERROR(ComputeDeferred(request, executed));
      if (tunes && executed != nullptr) {
        session_.tuning->Record(StepOf(signature), executed->layout, executed->num_rows,
                                absl::ToDoubleSeconds(absl::Now() - begin));
      }
      return outcome;
    }
    if (may_give_up && absl::IsResourceExhausted(outcome.status())) {
      const bool changed =
          session_.tuning->GiveUp(layout, std::string(outcome.status().message()));
      const bool took_data =
          signature.analysis.takes_data || signature.analysis.calls_take_data;
      if (changed && !took_data && trainer->iterations() == iterations) continue;
    }
    return outcome;
  }
}

absl::Status RunDispatcher::ComputeDeferred(const RunRequest& request,
                                            Executed* outcome) {
  const DeferredRun& rest = outcome->deferred;
  if (rest.fetches.empty()) return absl::OkStatus();
  const ScopedMark marked(&session_.trainer->activity(), "deferred fetches");
  std::vector<tf::Tensor> values;
  tf::RunMetadata metadata;
  TF_RETURN_IF_ERROR(session_.central->Run(*request.run_options, rest.feeds,
                                           rest.fetches, /*target_node_names=*/{},
                                           &values, &metadata));
  for (size_t i = 0; i < values.size(); ++i) {
    outcome->fetches[rest.places[i]] = std::move(values[i]);
  }
  if (request.metadata != nullptr) {
    request.metadata->mutable_step_stats()->MergeFrom(metadata.step_stats());
  }
  return absl::OkStatus();
}

absl::Status RunDispatcher::RunOnCentral(const Signature& signature, const Call& call,
                                         const std::function<absl::Status()>& central) {
  const bool learning = signature.analysis.kind == RunAnalysis::Kind::kLearning;
  if (learning && session_.trainer->has_other_hosts() && signature.program == nullptr) {
    return NotOnManyHosts(signature.why_central);
  }
  CentralRun beside;
  TF_RETURN_IF_ERROR(beside.Begin(&session_.trainer->central(), signature.analysis));
  const absl::Status status = central();
  beside.End();
  int64_t rows = LeadingRows(call.feeds);
  if (status.ok() && !signature.rows_tensor.empty()) {
    if (rows == 0) rows = LeadingRows({call.fetches->back()});
    call.fetches->pop_back();
  }
  if (status.ok() && learning) session_.trainer->CountCentralTask(rows);
  return status;
}

absl::StatusOr<Decision> RunDispatcher::Explain(const Signature& signature,
                                                const std::vector<tf::Tensor>& feeds) {
  // Nothing is known before an element has been taken.
  if (signature.element != nullptr) return Decision();
  const tf::RunOptions options;
  RunRequest request;
  request.program = signature.program.get();
  request.feeds = &feeds;
  request.run_options = &options;
  request.cancellation = session_.cancellation;
  TF_ASSIGN_OR_RETURN(Decision explanation,
                      session_.trainer->programs().Explain(request));
  if (!explanation.recompile) return explanation;
  Recompile(signature, explanation.rows.has_value() ? &*explanation.rows : nullptr);
  return session_.trainer->programs().Explain(request);
}

}  // namespace tensorbow
