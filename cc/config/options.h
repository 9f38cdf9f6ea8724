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
  // 0: as many as keep the CPU cores that this process may use busy, two for every
  // accelerator.
  int learners_per_device = 0;
  // Of every learner, if it is one number, or of each learner of a device. None: those
  // of a stock session for a lone learner, else one.
  std::vector<int> threads_per_learner;
  // Whether both are found by measuring the learning runs; those above are what to
  // begin with.
  bool tunes_learners = false;

  // Rows of one learner's batch; 0: a run's rows are divided among the learners.
  int64_t batch_size = 0;
  // The rows that a run is divided by, to begin with; 0 as above.
  int64_t rows_of_batch() const {
    return algorithm == Algorithm::kAdaptive ? adaptive.b_max : batch_size;
  }
  // Whether a run's tasks are shards of one batch, not batches of their own.
  bool divides_batches() const {
    return batch_size == 0 && algorithm != Algorithm::kAdaptive;
  }

  // Whether each learner takes an element of its own from pipelines and queues; else a
  // run takes one, whose rows are divided as those of feeds are.
  bool element_for_each_learner = false;
  bool divides_elements() const {
    return !element_for_each_learner && algorithm != Algorithm::kAdaptive;
  }

  SchedulingPolicy scheduling = SchedulingPolicy::kFirstComeFirstServed;

  // How the learners are kept together: by what the program's optimisers are, model
  // averaging, averaged gradients, not, or by merges after every mega-batch.
  enum class Algorithm { kAuto, kSma, kSsgd, kIndependent, kAdaptive };
  Algorithm algorithm = Algorithm::kAuto;
  // SMA's (elastic averaging is SMA with a lagging centre without momentum).
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

  // The hosts that train together; null where there is only this one.
  std::shared_ptr<Hosts> hosts;
  int num_hosts() const { return hosts == nullptr ? 1 : hosts->size(); }
  // Those that are left of them.
  int hosts_left() const {
    return hosts == nullptr ? 1 : static_cast<int>(hosts->members().size());
  }
  // Iterations from one average of all of them to the next, under SMA.
  int64_t host_period = 1;
  // How gradients travel between them, under SSGD.
  Chunking host_chunks;
  // The strength of corrections towards the mean of so many learners.
  double alpha_of(int num_learners) const {
    return alpha > 0 ? alpha : 1.0 / num_learners;
  }

  // By tensor name ("x:0"): feeds to divide by rows, feeds to give whole to every
  // learner, how to combine a fetch.
  std::set<std::string> shard;
  std::set<std::string> replicate;
  std::map<std::string, Combination> combine;
  // By the name of a fetched operation or tensor: what kind of run it makes.
  std::map<std::string, RunAnalysis::Kind> run_kind;

  // Whether a run proves that it may be divided before it is divided for the first
  // time.
  bool proof = true;

  std::optional<int64_t> seed;
  bool pin_threads = true;

  // Whether learning tasks on accelerators are recorded once and replayed: where
  // possible, the same with a warning where not, or never.
  enum class TaskRecording { kAuto, kOn, kOff };
  TaskRecording task_recording = TaskRecording::kAuto;

  // Whether the accelerators of this host add up through its memory.
  bool reduces_on_host = false;

  // Keeps warnings for TakeWarnings() instead of logging them.
  bool collect_warnings = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CONFIG_OPTIONS_H_
