// A run of the central session, as the trainer sees it.
#ifndef TENSORBOW_CC_TRAINER_CENTRAL_RUN_H_
#define TENSORBOW_CC_TRAINER_CENTRAL_RUN_H_

#include "absl/status/status.h"
#include "cc/analysis/run_analysis.h"
#include "cc/trainer/trainer.h"

namespace tensorbow {

// Around a run of the central session: brings the central variables it reaches up
// to date and, when it writes, has replicas start from what it wrote. A writing run
// excludes learning until it ends, unless it may have to wait for another run.
//
// A learning run that waits for data may be waiting for what this run enables (an
// actor that asks the model and then enqueues): then it goes on beside the learning
// run, with the central values of that run's beginning.
class Trainer::CentralRun {
 public:
  // Begin() and End() are called once each, on the same thread; `analysis` must
  // stay until then.
  absl::Status Begin(Trainer* trainer, const RunAnalysis& analysis);
  void End();
  ~CentralRun();

 private:
  void Unlock();

  Trainer* trainer_ = nullptr;
  const RunAnalysis* analysis_ = nullptr;
  bool locked_ = false;
  bool writes_ = false;  // variables that learners have copies of, or may get
};

// A run of the central session that has begun and not ended, between its calls: a
// partial run. One that writes has learning runs executed by the central session until
// it ends, because it may write at any moment.
class Trainer::OpenRun {
 public:
  OpenRun() = default;
  ~OpenRun();
  OpenRun(const OpenRun&) = delete;
  OpenRun& operator=(const OpenRun&) = delete;

  // Called once.
  void Begin(Trainer* trainer, const RunAnalysis& analysis);

 private:
  Trainer* trainer_ = nullptr;
  bool writes_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_CENTRAL_RUN_H_
