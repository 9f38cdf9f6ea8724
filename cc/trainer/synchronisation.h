// How the learners of a session are kept together: the algorithm, the central model and
// the synchroniser, made together when the algorithm is known.
#ifndef TENSORBOW_CC_TRAINER_SYNCHRONISATION_H_
#define TENSORBOW_CC_TRAINER_SYNCHRONISATION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/analysis/run_analysis.h"
#include "cc/central_model/central_model.h"
#include "cc/config/options.h"
#include "cc/learner/learner_group.h"
#include "cc/synchroniser/algorithms/adaptive.h"
#include "cc/synchroniser/algorithms/host_merges.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

// What has been chosen; the rest is in the options.
struct Choice {
  Options::Algorithm algorithm = Options::Algorithm::kAuto;  // kAuto: nothing yet
  double momentum = 0;                                       // of a lagging centre

  // "SMA", "SSGD", "Independent", "AdaptiveSGD", or "" where nothing has been chosen.
  std::string name() const;
  // What learners do under it.
  Traits::Averages averages() const;
};
bool operator==(const Choice& a, const Choice& b);
// The choice with that name(), without momentum; nothing for an unknown one.
Choice ChoiceOfName(absl::string_view name);

// The choice for a session whose first learning run is `analysis`. Where the options
// leave the algorithm open: averaged gradients on the CPU, which make the step of a
// stock session; averaged models on accelerators.
Choice ChoiceFor(const RunAnalysis& analysis, const Options& options,
                 const LearnerGroup& learners);

struct Synchronisation {
  Choice choice;
  std::unique_ptr<CentralModel> model;
  std::unique_ptr<Synchroniser> synchroniser;  // works on the model
  Adaptive* adaptive = nullptr;  // the synchroniser's algorithm, if it is that
  std::unique_ptr<HostMerges> host_merges;  // of it, with other hosts
};

// Unimplemented if the algorithm does not keep several of these learners together.
absl::Status CheckAlgorithm(Options::Algorithm algorithm, const LearnerGroup& learners);

// REQUIRES: an algorithm has been chosen. A lone learner is left alone whatever that
// is, unless there are other hosts. `rounds`: with them, null without; not owned.
absl::StatusOr<std::unique_ptr<Synchronisation>> NewSynchronisation(
    const Choice& choice, const Options& options, const LearnerGroup& learners,
    HostRounds* rounds);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_SYNCHRONISATION_H_
