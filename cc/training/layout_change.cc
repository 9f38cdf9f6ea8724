// TrainingState::SetLayout(): learners come and go between two iterations.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/training/training_state.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

struct TrainingState::Replicas {
  std::vector<tf::NodeDef> nodes;
  std::vector<ReplicaState> states;
};

absl::StatusOr<TrainingState::Replicas> TrainingState::TakeReplicas(int num_learners) {
  Replicas taken;
  if (variables_ == nullptr) return taken;
  MarkWrites();
  TF_RETURN_IF_ERROR(ApplyRestarts());
  TF_RETURN_IF_ERROR(variables_->PublishAll());
  for (int id = 0; id < variables_->size(); ++id) {
    if (num_learners == 1 || is_single_learner()) {
      TF_RETURN_IF_ERROR(variables_->PublishModel(id));
      continue;
    }
    TF_ASSIGN_OR_RETURN(ReplicaState state, variables_->GetState(id, num_learners));
    taken.states.push_back(std::move(state));
    taken.nodes.push_back(variables_->node(id));
  }
  return taken;
}

absl::Status TrainingState::PutReplicas(const Replicas& replicas) {
  std::vector<VariableUse> uses;
  for (size_t i = 0; i < replicas.states.size(); ++i) {
    VariableUse& use = uses.emplace_back();
    use.node = &replicas.nodes[i];
    use.trained = replicas.states[i].trained;
    use.generator = replicas.states[i].generator;
  }
  return variables_->SetStates(uses, replicas.states);
}

absl::Status TrainingState::SetLayout(const Layout& layout) {
  const Layout before = learners_.layout();
  if (layout == before) return absl::OkStatus();
  TF_RETURN_IF_ERROR(learners_.CheckMemory(layout.learners));
  if (learners_.SizeOf(layout) > 1) {
    TF_RETURN_IF_ERROR(CheckAlgorithm(options_.algorithm, learners_));
  }
  TF_RETURN_IF_ERROR(learners_.Make(layout));
  const ScopedMark marked(
      &activity_, absl::StrCat("learners ", before.learners, " -> ", layout.learners));
  TF_ASSIGN_OR_RETURN(const Replicas replicas, TakeReplicas(learners_.SizeOf(layout)));

  // Kernels go before the replicas they use, both before the learners.
  for (const auto& [key, program] : progress_.Programs()) program->ForgetLearners();
  const Choice choice = this->choice();
  variables_.reset();
  synchronisation_.reset();
  learners_.SetLayout(layout);
  activity_.SetLearners(num_learners());
  scheduler_ = std::make_unique<TaskScheduler>(num_learners());
  if (choice.algorithm == Options::Algorithm::kAuto) return absl::OkStatus();
  TF_RETURN_IF_ERROR(SetAlgorithm(choice));
  return PutReplicas(replicas);
}

}  // namespace tensorbow
