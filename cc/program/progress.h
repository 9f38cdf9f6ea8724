// The progress of each learning run of a session, by its key, for checkpoints.
// Thread-safe.
#ifndef TENSORBOW_CC_PROGRAM_PROGRESS_H_
#define TENSORBOW_CC_PROGRAM_PROGRESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cc/program/program.h"

namespace tensorbow {

// The state of a program that outlives its learners.
struct RunProgress {
  int64_t iterations = 0;          // of its trained set
  std::vector<double> last_rates;  // learning rates of the last run
  bool rate_dropped = false;       // during the last run
};

class RunProgressTable {
 public:
  // Adds a program, which continues from the progress set for its run.
  void Add(const std::string& key, const std::shared_ptr<Program>& program)
      ABSL_LOCKS_EXCLUDED(mu_);

  std::map<std::string, RunProgress> Get() const ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the progress of all runs; runs not mentioned start again.
  void Set(std::map<std::string, RunProgress> progress) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the programs that still exist, by run.
  std::map<std::string, std::shared_ptr<Program>> Programs() const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the random ops of all programs whose state the learners do not keep.
  std::vector<std::string> HiddenRandomOps() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::map<std::string, std::shared_ptr<Program>> ProgramsLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<std::string, std::weak_ptr<Program>> programs_ ABSL_GUARDED_BY(mu_);
  // The progress of runs that have not been compiled yet.
  std::map<std::string, RunProgress> loaded_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_PROGRESS_H_
