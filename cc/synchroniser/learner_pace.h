// One learner's way through the iterations of a run: a handle to a Synchroniser, for
// the learner's thread. Different learners may call it concurrently.
#ifndef TENSORBOW_CC_SYNCHRONISER_LEARNER_PACE_H_
#define TENSORBOW_CC_SYNCHRONISER_LEARNER_PACE_H_

#include <cstdint>

namespace tensorbow {

class Synchroniser;
struct SynchroniserCore;

class LearnerPace {
 public:
  LearnerPace(Synchroniser* synchroniser, int learner);  // not owned

  // Starts the learner's next task. Returns false if its iteration was aborted.
  bool BeforeTask();
  // Ends the task; makes the corrections that no update op has made. Returns false if
  // the iteration was aborted.
  bool AfterTask();
  // Ends a task that found no data and contributes nothing. Returns false if the
  // iteration was aborted.
  bool Skip();
  // Ends a task that failed: its iteration and all later ones are aborted.
  void Abort();
  // Returns whether the learner's iteration, or its next one between tasks, is aborted.
  bool Aborted() const;

  // Sets the weight of the task in averages of gradients, relative to an equal one,
  // before it is executed. 1 at the start of a run.
  void SetShare(double share);
  // Sets the factor of the learning rate, before the task is executed. 1 at the start
  // of a run.
  void SetRate(double rate);
  // Records the rows of the task: before AfterTask(), better before it is executed.
  void RecordRows(int64_t rows);

 private:
  bool Finish(bool took_part);

  SynchroniserCore* const core_;
  const int learner_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_LEARNER_PACE_H_
