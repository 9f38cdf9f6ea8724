// The number of learners of a session, and of their threads: chosen by its user or
// found by measuring the learning runs. Thread-safe.
#ifndef TENSORBOW_CC_SESSION_LAYOUT_TUNING_H_
#define TENSORBOW_CC_SESSION_LAYOUT_TUNING_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "cc/trainer/trainer.h"
#include "cc/tuner/layout_tuner.h"

namespace tensorbow {

class LayoutTuning {
 public:
  // `set_layout` gives the trainer a layout; it is called with the tuner's mutex held.
  // The trainer is not owned.
  LayoutTuning(Trainer* trainer, bool on_accelerators,
               std::function<absl::Status(const Layout&)> set_layout)
      : trainer_(trainer),
        on_accelerators_(on_accelerators),
        set_layout_(std::move(set_layout)) {}

  void Start() ABSL_LOCKS_EXCLUDED(mu_);
  // Keeps the layout from now on.
  void End() ABSL_LOCKS_EXCLUDED(mu_);
  // Calls `change`, which may replace the learners; then starts again if it was tuning.
  absl::Status StartAgainAfter(const std::function<absl::Status()>& change)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the layout and ends tuning. `threads`: as in Options::threads_per_learner;
  // empty: as the options say. REQUIRES: at most one, or one for each learner of a
  // device.
  absl::Status SetLearners(int learners_per_device, std::vector<int> threads)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Records a learning run, and may try another layout. `step` identifies it
  // (Signature::step); `rows`: of the run; `layout`: of the learners, which may have
  // left it to the central session.
  void Record(uint64_t step, const Layout& layout, int64_t rows, double seconds)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes fewer learners after a run that had too little memory in this layout. Returns
  // whether there are fewer now.
  bool GiveUp(const Layout& layout, const std::string& why) ABSL_LOCKS_EXCLUDED(mu_);

  bool on_accelerators() const { return on_accelerators_; }
  // Returns whether the number of learners may change by itself.
  bool active() ABSL_LOCKS_EXCLUDED(mu_);
  // The layouts tried so far, in order; empty unless active.
  std::vector<LayoutTuner::Measurement> log() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the tuner's layout or, while one fails, the next that the tuner proposes.
  // Returns false if none can be had.
  bool Try(Layout next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the layout that the trainer gets for a tried one: a single learner on the
  // CPU computes on all cores, as a stock session does.
  Layout EffectiveLayout(const Layout& tried) const;

  Trainer* const trainer_;
  const bool on_accelerators_;
  const std::function<absl::Status(const Layout&)> set_layout_;

  absl::Mutex mu_;                                           // before RunDispatcher's
  std::unique_ptr<LayoutTuner> tuner_ ABSL_GUARDED_BY(mu_);  // or null
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_LAYOUT_TUNING_H_
