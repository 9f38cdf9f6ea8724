// Elastic hosts that come back: what Trainer does to take back a host that has been
// started again, and what that host does (cc/cluster/coming_back.cc).
//
// All members do it before the same iteration. The model, the counts and all else that
// follows other hosts go to the one that comes back; where models are averaged all
// replicas begin from z, as after a host is lost.
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::Status Trainer::MeetReturningHosts(Program* program) {
  Hosts* const hosts = rounds_->hosts();
  const std::pair<int, int> variables = {variables_->size(), variables_->num_trained()};
  if (std::exchange(described_, variables) != variables) {
    const std::string text = absl::StrCat(OptionsForHosts(), variables_->Describe());
    hosts->Describe(static_cast<int64_t>(tf::Hash64(text) | 1));  // not 0
  }
  if (hosts->returns()) return ComeBack(program);
  return TakeBackHosts(program->state.set->program, /*leaves=*/false);
}

absl::Status Trainer::TakeBackHosts(int64_t program, bool leaves) {
  if (!has_elastic_hosts() || !rounds_->takes_back() || inherited_.has_value()) {
    return absl::OkStatus();
  }
  // Some may come to this later than others.
  const auto all_here = rounds_->hosts()->NewSum(Hosts::Type::kInt64, 1);
  all_here->Start();
  Regrouping how;
  how.takes_back = all_here->Await().empty();
  how.behind = rounds_->behind();
  how.leaves = leaves;
  how.program = program;
  TF_RETURN_IF_ERROR(RegroupHosts(how).status());
  return Inherit();
}

absl::Status Trainer::ComeBack(Program* program) {
  comes_back_ = true;
  Regrouping how;
  how.program = program->state.set->program;
  TF_ASSIGN_OR_RETURN(const Regrouped found, RegroupHosts(how));
  std::optional<InheritedValues> last;
  if (found.all_leave) last = inherited_;
  TF_RETURN_IF_ERROR(Inherit());
  comes_back_ = found.all_leave;
  // Nobody trains any more: the run is made for its fetches.
  inherited_ = std::move(last);
  program->state.set->set_iterations(found.set_iterations);
  if (found.same_program) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "This host was restarted and executes another learning run than the other hosts. "
      "In a program with several learning runs, choose the run by session.iterations");
}

}  // namespace tensorbow
