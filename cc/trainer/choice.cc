// The part of a Trainer that chooses the algorithm which keeps the learners together.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

constexpr int kMostLearners = 1024;  // of a host; tensorbow/_layout.py checks it

}  // namespace

Choice Trainer::choice() const {
  absl::MutexLock lock(&choice_mu_);
  return choice_;
}

absl::Status Trainer::Choose(const Choice& choice) {
  TF_ASSIGN_OR_RETURN(synchronisation_,
                      NewSynchronisation(choice, options_, learners_, rounds_.get()));
  Synchroniser* const synchroniser = synchronisation_->synchroniser.get();
  std::vector<Learner*> learners;
  for (int j = 0; j < num_learners(); ++j) {
    Learner& learner = learners_[j];
    learner.device()->set_synchroniser(synchroniser);
    if (learner.accelerator() != nullptr) {
      learner.accelerator()->set_synchroniser(synchroniser);
    }
    learners.push_back(&learner);
  }
  variables_ = std::make_unique<ReplicatedVariables>(
      learners_.central_device(), std::move(learners), synchronisation_->model.get(),
      synchroniser);
  if (rounds_ != nullptr) {
    // Hosts that merge may have different numbers of learners.
    const int most =
        synchronisation_->host_merges == nullptr ? num_learners() : kMostLearners;
    variables_->set_first_random_stream(options_.hosts->rank() * most);
  }
  if (choice.averages() == Traits::Averages::kGradients && options_.proof &&
      options_.divides_batches() && options_.divides_elements()) {
    variables_->set_equal_replicas();
  }
  if (merges_ != nullptr) merges_->SetHosts();
  absl::MutexLock lock(&choice_mu_);
  choice_ = choice;
  return absl::OkStatus();
}

void Trainer::Unchoose() {
  variables_.reset();
  for (int j = 0; j < num_learners(); ++j) {
    learners_[j].device()->set_synchroniser(nullptr);
    if (learners_[j].accelerator() != nullptr) {
      learners_[j].accelerator()->set_synchroniser(nullptr);
    }
  }
  synchronisation_.reset();
  absl::MutexLock lock(&choice_mu_);
  choice_ = Choice();
}

void Trainer::WarnOfTwoMomenta(const RunAnalysis& analysis, double momentum) {
  constexpr double kStrong = 0.9 - 1e-6;  // 0.9 as a float is a little less
  if (analysis.optimiser_momentum < kStrong || momentum < kStrong) return;
  warn_(absl::StrCat("The learners' optimiser has momentum ",
                     analysis.optimiser_momentum,
                     " and the central model has momentum ", momentum,
                     ". Together they shrink the usable learning rate 2- to 8-fold; "
                     "momentum=\"auto\" leaves the central model's out."));
}

}  // namespace tensorbow
