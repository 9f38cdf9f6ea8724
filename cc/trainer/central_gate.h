// The runs of the central session beside the learning runs.
//
// Thread-safe.
#ifndef TENSORBOW_CC_TRAINER_CENTRAL_GATE_H_
#define TENSORBOW_CC_TRAINER_CENTRAL_GATE_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "cc/analysis/run_analysis.h"
#include "cc/program/program.h"
#include "cc/training/training_state.h"

namespace tensorbow {

class CentralGate {
 public:
  explicit CentralGate(TrainingState* state) : state_(state) {}  // not owned

  // Returns the reason why one learner executes all learning runs for now; or an empty
  // text.
  std::string WhyOneLearner() const;

  // Prepares a learning run: releases stale central values that nobody reads. If the
  // run `may_block`, publishes them instead, and lets central runs go on beside it.
  // `central_bypasses`: some do so already. REQUIRES: the caller has a Turn.
  absl::Status PrepareRun(const Program& program, bool may_block,
                          bool central_bypasses);

 private:
  friend class CentralRun;
  friend class OpenRun;

  TrainingState* const state_;
  std::atomic<int> active_{0};        // central runs under way
  std::atomic<int> open_writers_{0};  // open runs that write
};

// Guards one run of the central session: publishes the variables it reads and marks
// those it writes. A writing run excludes learning until it ends, unless it may have to
// wait for another run.
//
// If the learning run under way may be waiting for this run, it goes on beside it, with
// the central values of that run's beginning.
class CentralRun {
 public:
  CentralRun() = default;
  ~CentralRun();
  CentralRun(const CentralRun&) = delete;
  CentralRun& operator=(const CentralRun&) = delete;

  // Called once each, on the same thread. `analysis` must stay until End().
  absl::Status Begin(CentralGate* gate, const RunAnalysis& analysis);
  void End();

 private:
  absl::Status Publish();
  void Unlock();

  CentralGate* gate_ = nullptr;
  TrainingState* state_ = nullptr;
  const RunAnalysis* analysis_ = nullptr;
  bool locked_ = false;
  bool writes_ = false;  // variables that learners have copies of, or may get
};

// A run of the central session that is open between its calls: a partial run. One that
// writes may do so at any moment, so the central session executes learning runs until
// it ends.
class OpenRun {
 public:
  OpenRun() = default;
  ~OpenRun();
  OpenRun(const OpenRun&) = delete;
  OpenRun& operator=(const OpenRun&) = delete;

  // Called once.
  void Begin(CentralGate* gate, const RunAnalysis& analysis);

 private:
  CentralGate* gate_ = nullptr;
  bool writes_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_CENTRAL_GATE_H_
