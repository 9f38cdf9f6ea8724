// Executes learning runs: owns the learners, their scheduler, the synchroniser, the
// central model and the replicated variables of one session, and counts what they do.
//
// Thread-safe. One learning run at a time (it is parallel inside); central runs of the
// same session go on beside it and only meet it where they touch replicated variables.
#ifndef TENSORBOW_CC_TRAINER_TRAINER_H_
#define TENSORBOW_CC_TRAINER_TRAINER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cc/activity/activity_log.h"
#include "cc/analysis/run_analysis.h"
#include "cc/central_model/central_model.h"
#include "cc/config/options.h"
#include "cc/coordination/elastic_fate.h"
#include "cc/device/accelerator.h"
#include "cc/feeds/feeds.h"
#include "cc/feeds/fetches.h"
#include "cc/graph/program_graph.h"
#include "cc/learner/learner_group.h"
#include "cc/program/compiler.h"
#include "cc/program/program.h"
#include "cc/program/progress.h"
#include "cc/program/sharing.h"
#include "cc/replicas/variable_table.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/trainer/central_gate.h"
#include "cc/trainer/learning_run.h"
#include "cc/trainer/run.h"
#include "cc/trainer/synchronisation.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

struct SavedState;

class Trainer {
 public:
  // Called with a sentence that the user should read, at most once per text.
  using Warn = std::function<void(const std::string&)>;

  // `central`: the stock session that keeps the central variables; not owned, outlives
  // the trainer's Release(). `session_options` and `options` outlive the trainer.
  // `accelerators`: what learners compute on; null for the CPU.
  Trainer(const tensorflow::SessionOptions& session_options, const Options& options,
          tensorflow::Session* central, tensorflow::Device* central_device,
          AcceleratorBackend* accelerators, Warn warn);
  ~Trainer();
  // Makes the learners. Called once, before anything else.
  absl::Status Start();

  int num_learners() const { return learners_.size(); }  // of this host
  // Whether learners have variables of their own, beside the central ones.
  bool replicates() const { return !trains_alone() || learners_.accelerators(); }
  // Whether there is one learner, which computes what a stock session does.
  bool trains_alone() const { return num_learners() == 1 && rounds_ == nullptr; }
  bool has_other_hosts() const { return rounds_ != nullptr; }
  // Whether those that are left of them go on without the others.
  bool has_elastic_hosts() const {
    return rounds_ != nullptr && rounds_->hosts()->elastic();
  }
  // For people: what each learner computes on.
  std::vector<std::string> LearnerDevices() const ABSL_LOCKS_EXCLUDED(mu_);
  // What keeps the learners together; nothing before the first learning run is compiled
  // or a state is loaded.
  Choice choice() const ABSL_LOCKS_EXCLUDED(choice_mu_);

  // Waits for no run. Not to be called concurrently.
  absl::Status Compile(const ProgramGraph& graph, const RunSpec& spec,
                       const RunAnalysis& analysis, const SparseFeeds& sparse_feeds,
                       std::shared_ptr<Program>* program);

  // Compiles the program once more, for the learners there are now and these rows;
  // null: by the declarations of the feeds. A run that cannot be compiled so is
  // executed by one learner from then on.
  void Recompile(const ProgramGraph& graph, const RunSpec& spec,
                 const SparseFeeds& sparse_feeds, const RowsOfRun* rows,
                 Program* program) ABSL_LOCKS_EXCLUDED(mu_);

  // Between two iterations: gives every device so many learners, of so many threads.
  // The central model is what it was; where models are averaged all replicas begin at
  // it; learners that stay keep their slots and statistics, new ones begin with learner
  // 0's. Waits for the learning run that is under way, but not for Compile() or
  // Recompile(). ResourceExhausted where an accelerator has no memory for them;
  // Unimplemented where the algorithm does not keep several together.
  absl::Status SetLayout(const Layout& layout) ABSL_LOCKS_EXCLUDED(mu_);
  Layout layout() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return learners_.layout();
  }
  // The one with as many threads as the options say for so many learners on a device.
  absl::StatusOr<Layout> LayoutOf(int learners_per_device) const {
    return learners_.LayoutOf(learners_per_device);
  }

  absl::StatusOr<RunOutcome> Run(const RunRequest& request) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the reason why one learner executes the program's runs; or an empty text.
  std::string WhyOneLearner(const Program& program) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns what Run() would do. Nothing is executed.
  absl::StatusOr<Explanation> Explain(const RunRequest& request)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Around a run of the central session (central_run.h).
  class CentralRun;
  class OpenRun;
  // Returns the reason why one learner executes all learning runs for now; or an empty
  // text.
  std::string WhyOneLearnerNow() const;

  // All replicas ← z, without its momentum, before the next learning run.
  void Restart() { restarts_requested_.fetch_add(1); }

  // Counts a learning run that was executed on the central model.
  void CountCentralTask(int64_t rows);
  // Of all hosts; wait until these have ended the last iteration.
  int64_t iterations() const { return iterations_.load() + CountsOfHosts().iterations; }
  int64_t learning_tasks() const {
    return learning_tasks_.load() + CountsOfHosts().tasks;
  }
  int64_t samples_seen() const { return samples_seen_.load() + CountsOfHosts().rows; }

  // The session is closed: waits until it is on all hosts, whose learning runs go on
  // without this one. Not where it has never been asked to train: other hosts need not
  // have it.
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);

  // Merges what has been trained on of the mega-batch, with all hosts, which call this
  // together. FailedPrecondition where there are no mega-batches.
  absl::Status MergeWhatIsLeft() ABSL_LOCKS_EXCLUDED(mu_);
  // What has become of the last mega-batches, oldest first, if there are any.
  std::vector<MegaBatches::Record> MegaBatchRecords() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for the learning run that is under way.
  absl::StatusOr<Metrics> GetMetrics() ABSL_LOCKS_EXCLUDED(mu_);
  ActivityLog& activity() { return activity_; }

  // A copy of learner `learner`'s value of a variable that learning runs have reached;
  // NotFound for any other.
  absl::StatusOr<tensorflow::Tensor> LearnerValue(const std::string& variable,
                                                  int learner) ABSL_LOCKS_EXCLUDED(mu_);

  // A copy of the central value: of its moving average, where there is one and it is
  // asked for.
  absl::StatusOr<tensorflow::Tensor> CentralValue(const std::string& variable,
                                                  CentralModel::Which which)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Saves as `path` all it takes to go on from here bit for bit, and sets it; see
  // checkpoint.cc. `nodes`: all variables of the graph. After an error, what was
  // saved before, or the state of this session, is as it was.
  absl::Status SaveState(const std::vector<const tensorflow::NodeDef*>& nodes,
                         const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);
  // Not beside Compile() or Recompile(): it takes over the number of learners.
  absl::Status LoadState(const std::vector<const tensorflow::NodeDef*>& nodes,
                         const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);

  // The first half of destruction, while the central session still lives: ends the
  // learners' threads, deletes their kernels and their variables. REQUIRES: no program
  // is left and no run is active.
  void Release();

 private:
  // Returns a compiler for the learners that there are now.
  Compiler NewCompiler();
  // Makes what keeps the learners together.
  absl::Status Choose(const Choice& choice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether what a saved state was trained with may be chosen, or has been.
  absl::Status CheckChoice(const Choice& saved) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Unchoose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What all learners have of the variables, for so many learners; brings the central
  // variables up to date.
  struct Replicas;
  absl::StatusOr<Replicas> TakeReplicas(int num_learners)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status PutReplicas(const Replicas& replicas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ChangeLayout(const Layout& layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WarnOfTwoMomenta(const RunAnalysis& analysis, double momentum);

  // See WhyOneLearner().
  std::string WhyOne(const Program& program) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether runs can have more than one task.
  bool MayDivide() const;
  absl::Status PlanRun(const RunRequest& request, FeedPlan* plan)
      ABSL_LOCKS_EXCLUDED(mu_);
  void WarnOfFeeds(Program* program, const std::string& why);
  // The rows that the program has to be compiled for before the run; nullopt if it is.
  std::optional<RowsOfRun> RowsToCompile(const RunRequest& request,
                                         const FeedPlan& plan) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether learners would estimate values from too few rows, and says so.
  bool HasTooFewRows(const FeedPlan& plan, const Program& program);
  // Whether the user's callback, which may use the session, wants a restart from z.
  absl::StatusOr<bool> AskForRestart();
  // Brings the replicas to where the next iteration starts; `ready` is false if a
  // variable has no value yet. `feeds`: null where there is no data.
  absl::Status PrepareReplicas(Program* program,
                               const std::vector<tensorflow::Tensor>* feeds,
                               bool restart, bool* ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Before learners begin: releases central values that nobody reads; or publishes
  // them, where central runs go on beside a run that `waits`, which they may from now
  // on.
  absl::Status PrepareCentral(bool waits, bool read_meanwhile, const Program& program)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes which variables data pipelines read whenever they like.
  void NoteCaptured(const RunAnalysis& analysis);
  // From now on replicas start from what central runs have written.
  void NoteWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The id of a variable that learners have copies of, with writes noted; or NotFound.
  absl::StatusOr<int> FindReplicated(const std::string& variable)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives every learner its own copy of what a program that has been compiled since
  // cannot share; those that have shared it are to be compiled again.
  absl::Status SeparateVariables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Brings replicas up to date with what central runs have written.
  absl::Status BroadcastWrites(Program* program, bool* ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Decides which variables the synchroniser keeps together in runs of `program`: those
  // it writes that some program trains.
  void ChooseTrainedSet(Program* program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tell a set of trained variables where the replicas lie: all of them, between runs;
  // those that `learner`'s task may have moved.
  absl::Status LocateReplicas(const std::vector<int>& ids, TrainedSet* set)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status LocateAfterTask(Program* program, int learner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The replicas of all that some program trains; the central values will be out of
  // date.
  absl::StatusOr<TrainedSet> LocateAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Before a run: what cuts its rows, or null where tasks are those of the plan.
  MegaBatches* BeginBatches(const FeedPlan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A mega-batch is complete, in a run (null: of this host alone), or does not count.
  absl::Status MergeModels(const LearningRun* run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AbandonMegaBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  class MergesOfHosts;  // with other hosts
  HostRounds::Counts CountsOfHosts() const;
  absl::Status OnOneHostOnly(const char* what) const;
  // Where other hosts come to the same call with the same path, too, or an error.
  absl::Status MeetHosts(const char* call, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::map<int, int64_t>> GatherFromHosts(int64_t brought)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // This host's error or, if another has one, that it has; OK if nobody has.
  absl::Status AgreeOnOutcome(const char* what, const absl::Status& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Saves this host's part of a state, if all hosts can save theirs.
  absl::Status SavePart(const SavedState& state, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Goes back to the save that all hosts have, if this one has come further.
  absl::Status AgreeOnSave(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string PathOfHost(const std::string& path) const;
  // All hosts begin with the same: overwrites `values`, by variable, with the chief's.
  absl::Status AgreeWithHosts(std::map<std::string, tensorflow::Tensor>* values)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Where hosts average gradients: those that had no data for a while get what the
  // others have learned of these variables. After an iteration that does not count.
  absl::Status CatchUp(const std::vector<int>& ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the user is told of an iteration that does not count on all hosts.
  absl::Status HostsError() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After a run: what the hosts have made of it; goes on while others have data.
  absl::Status FollowHosts(const Program& program, const LearningRun& run, bool* again)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool averages_gradients() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AgreeOn(int64_t what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // --- Of elastic hosts (elastic_hosts.cc).

  // FollowHosts(); `*again`: the run is to be made again.
  absl::Status FollowElasticHosts(const Program& program, const LearningRun& run,
                                  bool* again) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The fate of the last iteration, if need be of those that are left. `set`: what it
  // trained, or null. `may_rehearse`: the run can be made again for its fetches, where
  // others have made its updates, which wait for that in inherited_.
  absl::StatusOr<ElasticFate> AwaitElasticHosts(const TrainedSet* set,
                                                bool may_rehearse)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Goes on with the hosts there are, from what the most advanced has (inherited_).
  absl::StatusOr<Regrouped> RegroupHosts(Regrouping how)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // inherited_ ← the model and the counts of a host, for one that has come back all
  // else that follows it, too. False if they are lost.
  absl::StatusOr<bool> TakeModelOf(int host, bool everything)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Inherit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // applies it
  absl::Status CatchUpElastic() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Before an iteration: takes back who waits for that, or comes back.
  absl::Status MeetReturningHosts(Program* program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakeBackHosts(int64_t program, bool leaves)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ComeBack(Program* program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string OptionsForHosts() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The error of values that were lost between iterations, of which nobody can tell who
  // has got them; all hosts raise it.
  absl::Status LostBetween(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets all replicas of all trained variables to z, if Restart() has asked for that.
  absl::Status RestartIfAsked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Learners that sat out begin from z in what they are to read and do not train, too.
  absl::Status RefreshWhatIsRead(Program* program, int num_active)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // After a run: counts what it did, marks what it changed, undoes what was discarded.
  absl::Status Conclude(Program* program, LearningRun* run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Where all replicas are the same, gives learners that had no task in the last
  // iteration the state of one that had; after a failure, all that of learner 0.
  absl::Status MakeReplicasEqual(Program* program, const LearningRun& run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteRun(const Program& program, const LearningRun& run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CollectFetches(const Program& program,
                              const std::vector<TaskOutcome>& outcomes,
                              std::vector<tensorflow::Tensor>* fetches)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const tensorflow::SessionOptions& session_options_;
  const Options& options_;
  tensorflow::Session* const central_;  // not owned
  const Warn warn_;

  const std::unique_ptr<HostRounds> rounds_;        // null where there is one host
  const std::unique_ptr<MergesOfHosts> merges_;     // null but under Adaptive SGD
  bool behind_hosts_ ABSL_GUARDED_BY(mu_) = false;  // replicas are to restart
  std::optional<InheritedValues> inherited_ ABSL_GUARDED_BY(mu_);  // not yet applied
  bool comes_back_ ABSL_GUARDED_BY(mu_) = false;  // and has nothing of the others yet
  std::pair<int, int> described_ ABSL_GUARDED_BY(mu_);  // variables, as hosts know them
  // Of the last learning run, for iterations without one: what it trained, wrote (ids).
  std::unique_ptr<TrainedSet> last_trained_ ABSL_GUARDED_BY(mu_);
  std::vector<int> last_written_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> left_{false};
  std::atomic<bool> trains_{false};  // a learning run has been asked for

  LearnerGroup learners_;  // changed where no run and no Compile() uses it
  std::unique_ptr<TaskScheduler> scheduler_;
  RunProgressTable progress_;
  ActivityLog activity_;

  // Whoever works on replicated variables takes a turn, which comes before mu_.
  Turns turns_;
  mutable absl::Mutex mu_;  // taken by the holder of the turn, or for a moment
  // Null before the first learning run is compiled or a state is loaded.
  std::unique_ptr<Synchronisation> synchronisation_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ReplicatedVariables> variables_ ABSL_GUARDED_BY(mu_);
  mutable absl::Mutex choice_mu_ ABSL_ACQUIRED_AFTER(mu_);
  Choice choice_ ABSL_GUARDED_BY(choice_mu_);
  std::atomic<int64_t> restarts_requested_{0};
  int64_t restarts_made_ ABSL_GUARDED_BY(mu_) = 0;  // of those

  absl::Mutex sharing_mu_ ABSL_ACQUIRED_AFTER(mu_);
  Sharing sharing_ ABSL_GUARDED_BY(sharing_mu_);
  // Since SeparateVariables().
  Sharing::Names separated_ ABSL_GUARDED_BY(sharing_mu_);

  // Variables that central runs have written since NoteWrites().
  absl::Mutex writes_mu_ ABSL_ACQUIRED_AFTER(mu_);
  std::set<std::string> writes_ ABSL_GUARDED_BY(writes_mu_);
  // Variables that data pipelines refer to.
  std::set<std::string> captured_ ABSL_GUARDED_BY(writes_mu_);
  std::atomic<int> central_runs_{0};  // under way
  std::atomic<int> open_writers_{0};  // of those, partial runs that write

  std::atomic<int64_t> iterations_{0};
  std::atomic<int64_t> learning_tasks_{0};
  std::atomic<int64_t> samples_seen_{0};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_TRAINER_H_
