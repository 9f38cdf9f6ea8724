// The choices of a user for one session. The Python package validates them and fills
// them in; they are immutable afterwards.
#ifndef TENSORBOW_CC_CONFIG_OPTIONS_H_
#define TENSORBOW_CC_CONFIG_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/feeds/fetches.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/synchroniser/algorithms/mega_batches.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

struct Options {
  // Learners on each device. 0: as many as keep the process's CPU cores busy, two for
  // every accelerator.
  int learners_per_device = 0;
  // One number for every learner, or one for each learner of a device. Empty: a lone
  // learner has the threads of a stock session, others have one.
  std::vector<int> threads_per_learner;
  // Searches both numbers by measuring learning runs, beginning with those above.
  bool tunes_learners = false;
  // Runs that train the same variables are traces of one step, which tuning measures.
  bool one_step = false;

  // Rows of one learner's batch; 0: a run's rows are divided among the learners.
  int64_t batch_size = 0;
  // Returns the rows of one task, to begin with; 0 as above.
  int64_t rows_of_batch() const {
    return algorithm == Algorithm::kAdaptive ? adaptive.b_max : batch_size;
  }
  // Returns whether a run's tasks are shards of one batch, not batches of their own.
  bool divides_batches() const {
    return batch_size == 0 && algorithm != Algorithm::kAdaptive;
  }

  // Gives each learner an element of its own from pipelines and queues. Otherwise a run
  // takes one, whose rows are divided like a feed's.
  bool element_for_each_learner = false;
  bool divides_elements() const {
    return !element_for_each_learner && algorithm != Algorithm::kAdaptive;
  }

  SchedulingPolicy scheduling = SchedulingPolicy::kFirstComeFirstServed;

  // The algorithm that keeps the learners together. kAuto: averaged gradients, or
  // models on accelerators.
  enum class Algorithm { kAuto, kSma, kSsgd, kIndependent, kAdaptive };
  Algorithm algorithm = Algorithm::kAuto;
  // SMA's centre (elastic averaging is SMA with a lagging centre without momentum).
  SmaOptions::Centre centre = SmaOptions::Centre::kCurrent;
  double alpha = 0;                // 0: 1 / number of learners
  std::optional<double> momentum;  // of a lagging centre; unset: by the optimiser
  int64_t sync_period = 1;
  double ema_decay = 0;  // of the average of the central model; 0: none
  AdaptiveOptions adaptive;
  enum class Restart { kNever, kOnLearningRateDrop, kCallback };
  Restart restart = Restart::kOnLearningRateDrop;
  // Called before a learning run with the number of completed iterations.
  std::function<absl::StatusOr<bool>(int64_t iterations)> restart_callback;

  // The hosts that train together; null for one host.
  std::shared_ptr<Hosts> hosts;
  int num_hosts() const { return hosts == nullptr ? 1 : hosts->size(); }
  // Returns the number of hosts that are not lost.
  int hosts_left() const {
    return hosts == nullptr ? 1 : static_cast<int>(hosts->members().size());
  }
  // Iterations between two averages of all hosts, under SMA.
  int64_t host_period = 1;
  // The sizes of messages with gradients between hosts, under SSGD.
  Chunking host_chunks;
  // Returns the strength of corrections towards the mean of so many learners.
  double alpha_of(int num_learners) const {
    return alpha > 0 ? alpha : 1.0 / num_learners;
  }

  // Tensors by name ("x:0"): feeds to divide by rows, feeds that every learner gets
  // whole, and combinations of fetches.
  std::set<std::string> shard;
  std::set<std::string> replicate;
  std::map<std::string, Combination> combine;
  // The kinds of runs, by the name of a fetched operation or tensor.
  std::map<std::string, RunAnalysis::Kind> run_kind;

  // Divides runs by the types of their rows; otherwise by the shapes of their feeds.
  bool proof = true;

  std::optional<int64_t> seed;
  bool pin_threads = true;

  // Recording of learning tasks on accelerators, for replay: if possible, the same with
  // a warning if not, or never.
  enum class TaskRecording { kAuto, kOn, kOff };
  TaskRecording task_recording = TaskRecording::kAuto;

  // Adds up values of this host's accelerators through its memory.
  bool reduces_on_host = false;

  // Keeps warnings for TakeWarnings() instead of logging them.
  bool collect_warnings = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CONFIG_OPTIONS_H_
