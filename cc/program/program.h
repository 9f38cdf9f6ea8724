// A learning run of a session: its analysis, its compiled form, and the state that its
// runs leave.
#ifndef TENSORBOW_CC_PROGRAM_PROGRAM_H_
#define TENSORBOW_CC_PROGRAM_PROGRAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cc/analysis/run_analysis.h"
#include "cc/program/compiled_program.h"
#include "cc/program/learning_rates.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

// The state of a program between its runs. Guarded by the trainer's lock.
struct ProgramState {
  // Ids of replicated variables.
  std::vector<int> variables;  // all
  std::vector<int> written;    // changed by tasks
  std::vector<int> one_copy;   // shared by all learners
  // Variables that the synchroniser averages: first those that this program trains, in
  // the order of its analysis.
  std::vector<int> trained;
  int num_trained = -1;  // of the session, when `trained` was made; -1: never
  std::unique_ptr<TrainedSet> set;  // made in the first run
  int64_t first_iteration = 0;      // of the set, when it is made
  std::vector<int> only_read;       // trained by other programs only
  std::unique_ptr<TrainedSet> only_read_set;

  RateHistory rates;
  bool measured_memory = false;  // on accelerators, in the first run
  // The reason why learners made since cannot execute the run; or empty.
  std::string why_central;
};

class Program {
 public:
  explicit Program(const RunAnalysis& analysis) : analysis(analysis) {}

  // Returns the compiled program. May be called at any time.
  std::shared_ptr<const CompiledProgram> compiled() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return compiled_;
  }
  // Returns null between ForgetLearners() and Replace(). Guarded as the state is.
  LearnerPrograms* learners() const { return learners_.get(); }

  // Sets the compiled program, for the present learners.
  void Replace(std::shared_ptr<const CompiledProgram> compiled,
               std::unique_ptr<LearnerPrograms> learners) ABSL_LOCKS_EXCLUDED(mu_);
  // Drops everything compiled for the learners; keeps the progress of runs.
  void ForgetLearners();

  // Returns whether learners share their copies of the variable.
  bool Shares(const std::string& variable) const {
    return learners_ != nullptr && compiled()->traits.shared.count(variable) > 0;
  }
  // Returns a number by which hosts recognise the program.
  int64_t Fingerprint() const;

  const RunAnalysis analysis;
  ProgramState state;
  std::atomic<bool> warned_of_feeds{false};  // that its feeds cannot be divided

 private:
  std::unique_ptr<LearnerPrograms> learners_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const CompiledProgram> compiled_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_PROGRAM_H_
