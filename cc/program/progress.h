// What the learning runs of a session have got to, by the key of the run, for saving
// and loading. Thread-safe.
#ifndef TENSORBOW_CC_PROGRAM_PROGRESS_H_
#define TENSORBOW_CC_PROGRAM_PROGRESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cc/program/learning_program.h"

namespace tensorbow {

// What a program keeps from run to run.
struct RunProgress {
  int64_t iterations = 0;          // of its trained set
  std::vector<double> last_rates;  // learning rates of the last run
  bool rate_dropped = false;       // within the last run
};

class RunProgressTable {
 public:
  // Adds a program, which goes on from what was set for its run.
  void Add(const std::string& key, const std::shared_ptr<LearningProgram>& program)
      ABSL_LOCKS_EXCLUDED(mu_);

  std::map<std::string, RunProgress> Get() const ABSL_LOCKS_EXCLUDED(mu_);
  // Of all runs; those that are not there start afresh.
  void Set(std::map<std::string, RunProgress> progress) ABSL_LOCKS_EXCLUDED(mu_);

  // Those that still exist, by run.
  std::map<std::string, std::shared_ptr<LearningProgram>> Programs() const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Of all programs: the random ops whose state is not with the learners.
  std::vector<std::string> HiddenRandomOps() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::map<std::string, std::shared_ptr<LearningProgram>> ProgramsLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<std::string, std::weak_ptr<LearningProgram>> programs_ ABSL_GUARDED_BY(mu_);
  // Of runs that have not been compiled yet.
  std::map<std::string, RunProgress> loaded_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_PROGRESS_H_
