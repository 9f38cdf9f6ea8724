// The algorithm, the central model and the synchroniser that keep the learners of a
// session together. They are made at once, when the algorithm is known.
#ifndef TENSORBOW_CC_TRAINING_SYNCHRONISATION_H_
#define TENSORBOW_CC_TRAINING_SYNCHRONISATION_H_

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

// The choice of an algorithm; the rest is in the options.
struct Choice {
  Options::Algorithm algorithm = Options::Algorithm::kAuto;  // kAuto: nothing yet
  double momentum = 0;                                       // of a lagging centre

  // Returns "SMA", "SSGD", "Independent" or "AdaptiveSGD"; "" before the choice.
  std::string name() const;
  // Returns the values that learners average.
  Traits::Averages averages() const;
};
bool operator==(const Choice& a, const Choice& b);
// Returns the choice with that name(), without momentum; kAuto for an unknown one.
Choice ChoiceOfName(absl::string_view name);

// Returns the choice for a session whose first learning run is `analysis`. If the
// options leave the algorithm open, it averages gradients on the CPU, which makes a
// stock session's step, and models on accelerators.
Choice ChoiceFor(const RunAnalysis& analysis, const Options& options,
                 const LearnerGroup& learners);

struct Synchronisation {
  Choice choice;
  std::unique_ptr<CentralModel> model;
  std::unique_ptr<Synchroniser> synchroniser;  // works on the model
  Adaptive* adaptive = nullptr;  // the synchroniser's algorithm, if it is that
  std::unique_ptr<HostMerges> host_merges;  // of it, with other hosts
};

// Returns Unimplemented if the algorithm cannot keep several of these learners
// together.
absl::Status CheckAlgorithm(Options::Algorithm algorithm, const LearnerGroup& learners);

// Makes the parts of an algorithm that has been chosen. A lone learner without other
// hosts is left alone, whatever the algorithm. `rounds`: null on one host; not owned.
absl::StatusOr<std::unique_ptr<Synchronisation>> NewSynchronisation(
    const Choice& choice, const Options& options, const LearnerGroup& learners,
    HostRounds* rounds);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_SYNCHRONISATION_H_
