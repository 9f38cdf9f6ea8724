#include "cc/training/training_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/training/trained_sets.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kMostLearners = 1024;  // of a host; the Python package checks it

}  // namespace

TrainingState::TrainingState(const tf::SessionOptions& session_options,
                             const Options& options, tf::Session* central,
                             tf::Device* central_device,
                             AcceleratorBackend* accelerators, Warn warn)
    : session_options_(session_options),
      options_(options),
      warn_(std::move(warn)),
      rounds_(options.num_hosts() > 1
                  ? std::make_unique<HostRounds>(options.hosts.get())
                  : nullptr),
      learners_(session_options, options, central, central_device, accelerators,
                [this](const std::string& why) {
                  warn_(absl::StrCat(
                      "cuda_graphs=\"on\": learning tasks are executed op by op, "
                      "because ",
                      why));
                }) {}

absl::Status TrainingState::Start() {
  TF_ASSIGN_OR_RETURN(const Layout first, learners_.FirstLayout());
  TF_RETURN_IF_ERROR(learners_.Make(first));
  learners_.SetLayout(first);
  activity_.SetLearners(num_learners());
  absl::MutexLock lock(&mu_);
  scheduler_ = std::make_unique<TaskScheduler>(num_learners());
  // Reports at once an algorithm that cannot work.
  if (num_learners() == 1 && !options_.tunes_learners) return absl::OkStatus();
  return CheckAlgorithm(options_.algorithm, learners_);
}

void TrainingState::Release() {
  learners_.ReleaseKernels();
  absl::MutexLock lock(&mu_);
  variables_.reset();
}

Choice TrainingState::choice() const {
  absl::MutexLock lock(&choice_mu_);
  return choice_;
}

absl::Status TrainingState::OnOneHostOnly(const char* what) const {
  if (rounds_ == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(what, " is implemented for one host, and this session trains with ",
                   options_.num_hosts(), "."));
}

absl::Status TrainingState::SetAlgorithm(const Choice& choice) {
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
  variables_ =
      std::make_unique<VariableTable>(learners_.central_device(), std::move(learners),
                                      synchronisation_->model.get(), synchroniser);
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
  absl::MutexLock lock(&choice_mu_);
  choice_ = choice;
  return absl::OkStatus();
}

void TrainingState::ClearAlgorithm() {
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

void TrainingState::MarkWrites() {
  if (variables_ == nullptr) return;  // nothing is replicated yet
  for (const std::string& name : writes_.TakeWritten()) variables_->MarkAssigned(name);
}

absl::Status TrainingState::StopSharing() {
  const Sharing::Names names = sharing_.TakeStopped();
  if (names.empty()) return absl::OkStatus();
  for (const auto& [key, program] : progress_.Programs()) {
    const bool shares =
        std::any_of(names.begin(), names.end(),
                    [&p = *program](const auto& name) { return p.Shares(name); });
    if (shares) program->ForgetLearners();
  }
  return variables_->Separate(names);
}

absl::Status TrainingState::ApplyRestarts() {
  const int64_t requested = restarts_requested_.load();
  if (std::exchange(restarts_made_, requested) == requested || variables_ == nullptr) {
    return absl::OkStatus();
  }
  const bool averages_models = synchroniser()->traits().averages_models();
  if (!averages_models && synchronisation_->adaptive == nullptr) {
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll(this));
  if (synchronisation_->adaptive != nullptr) {
    synchronisation_->adaptive->Abandon(all);
  } else {
    synchroniser()->Restart(all);
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
