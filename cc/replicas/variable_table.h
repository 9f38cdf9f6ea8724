// The variables of a session that learners have copies of, and the traffic between
// the copies and the central model.
//
//   central variable   what reads, writes and Saver use: an ordinary variable of the
//                      stock session
//   replica            a learner's variable, in the learner's container; of a variable
//                      that learners share, all are learner 0's
//
// Both directions are lazy. Broadcast() brings replicas up to date after a write,
// Publish() brings central variables up to date after learning: a trained variable
// gets z, other floating-point state the learners' mean, everything else learner 0's
// value; a variable's node may say otherwise (kAggregationAttribute). Not thread-safe:
// the session calls it while no learner is running.
#ifndef TENSORBOW_CC_REPLICAS_VARIABLE_TABLE_H_
#define TENSORBOW_CC_REPLICAS_VARIABLE_TABLE_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/central_model/central_model.h"
#include "cc/learner/learner.h"
#include "cc/learner/variable_storage.h"
#include "cc/synchroniser/synchroniser.h"
#include "tensorflow/core/framework/device.h"

namespace tensorbow {

// Learners' side of a replicated variable, as it is saved.
struct ReplicaState {
  std::string name;
  bool trained = false;
  bool generator = false;
  // By learner; empty if the replicas have to start from the central value.
  std::vector<tensorflow::Tensor> replicas;
  // Flat, in the accumulation type; empty where the central model does not keep them.
  tensorflow::Tensor z, previous;
  tensorflow::Tensor average;
  int64_t model_iterations = 0;
  std::vector<int64_t> present;     // whose mean z is; empty: the model has no z
  std::vector<int64_t> learned_by;  // since the replicas have been equal
};

class VariableTable {
 public:
  // Nothing is owned; `learners` may be empty (then nothing is ever replicated).
  VariableTable(tensorflow::Device* central_device,
                      std::vector<Learner*> learners, CentralModel* model,
                      Synchroniser* synchroniser);

  // Learners draw as number `first` and the following ones; 0 unless set before
  // anything is replicated.
  void set_first_random_stream(int first) { first_random_stream_ = first; }
  // Declares all replicas equal, those of untrained variables, too; called before
  // anything is replicated.
  void set_equal_replicas() { equal_replicas_ = true; }

  // Deletes the replicas.
  ~VariableTable();

  // Makes the variable replicated (if it is not yet) and returns its id.
  int Add(const VariableUse& use);
  // Its id, or -1 if the variable (by node name) is not replicated.
  int Find(const std::string& name) const;

  // From now on all learners use one copy of these variables (Share), or each learner
  // has its own (Separate). Separate() ignores names of variables that are not
  // replicated. REQUIRES: from now on all programs use the variables in that way. If a
  // variable is trained, its replicas are equal.
  absl::Status Share(const std::vector<int>& ids);
  absl::Status Separate(const std::set<std::string>& names);

  // Overwrites values, by name of the variable, with those to go on from.
  using Agreement =
      std::function<absl::Status(std::map<std::string, tensorflow::Tensor>*)>;
  // Copies central values to all replicas that are out of date. Lists variables whose
  // central value is uninitialised; their replicas are left alone. With an `agree`, and
  // if there are none of those, central values get what it makes of them before.
  // `*any`: whether there was one to copy.
  absl::Status Broadcast(const std::vector<int>& ids, const Agreement& agree,
                         std::vector<int>* uninitialised, bool* any);
  // Whether some program trains the variable.
  bool trained(int id) const { return variables_[id].trained; }
  // Whether a host that had no data takes over what others have made of the variable:
  // not of what every learner has its own of.
  bool follows_others(int id) const {
    const Variable& variable = variables_[id];
    return variable.trained || !(variable.generator || variable.summed);
  }
  // Whether the replicas are what learners left, not what is still to be broadcast.
  bool replicas_up_to_date(int id) const { return !variables_[id].replicas_stale; }
  // Whether the central model has it: it is trained, and has been broadcast.
  bool in_model(int id) const { return variables_[id].model_index >= 0; }
  int num_trained() const { return num_trained_; }
  // The index of a trained variable in the central model. REQUIRES: it has been
  // broadcast.
  int model_index(int id) const { return variables_[id].model_index; }

  // Tells the trained set where `learner`'s buffer of variable `id`, its member
  // `member`, is now. The buffer is no longer shared with anybody afterwards. May be
  // called by different learners concurrently.
  absl::Status Locate(int id, int learner, int member, TrainedSet* set);

  // These learners have (perhaps) changed these variables.
  void MarkLearned(const std::vector<int>& ids, const std::vector<int>& learners);
  absl::Status Publish(const std::vector<int>& ids);

  // Eager code reads and writes its variables at any time between two runs. Before a
  // run, replicas of those it has written since the last one become out of date.
  void DetectEagerWrites(const std::vector<int>& ids);
  // After a run, central values of those among these variables are up to date, or what
  // they were, if it has `failed`.
  absl::Status PublishEager(const std::vector<int>& ids, bool failed);

  // Before one learner goes on with the central model: central variables get the
  // replicas' mean as it is (a lagging z lacks the last update of each, a moving
  // average most of them), and replicas will restart from what that learner makes of
  // it.
  absl::Status Gather(const std::vector<int>& ids);
  absl::Status PublishAll();
  // Gives back the memory of central values that have been out of date for some
  // learning runs, until they are published again. `kept`: variables to leave alone.
  // REQUIRES: no central run that is under way reads any, nor will one that does not
  // call Publish() before.
  absl::Status ReleaseStale(const std::set<std::string>& kept);
  // Publishes what has been released.
  absl::Status PublishReleased();
  // The central variable gets z itself, not its moving average.
  absl::Status PublishModel(int id);

  // The central variable of this name has been assigned to; no-op if not replicated.
  void MarkAssigned(const std::string& name);

  // A copy of the central value of a variable (replicated or not), or of one learner's.
  absl::StatusOr<tensorflow::Tensor> CentralValue(const tensorflow::NodeDef& node);
  absl::StatusOr<tensorflow::Tensor> ReplicaValue(int id, int learner);
  // A copy of the central model's value of a trained variable; of others, the central
  // value.
  absl::StatusOr<tensorflow::Tensor> ModelValue(int id, CentralModel::Which which);

  // What the central model keeps of all variables, by name, after all completed
  // iterations. Sets it; replicas stay what they are.
  absl::StatusOr<std::map<std::string, tensorflow::Tensor>> ModelStates();
  void SetModelStates(const std::map<std::string, tensorflow::Tensor>& values);
  // What variables there are, of which type and shape.
  std::string Describe() const;
  // The first learner's values of everything that follows other hosts and that the
  // central model does not keep, by name. Takes over another host's, for all learners.
  absl::StatusOr<std::map<std::string, tensorflow::Tensor>> FollowedStates() const;
  absl::Status TakeOverStates(const std::map<std::string, tensorflow::Tensor>& values);
  // What a learning run has left is another host's value, for all learners.
  absl::Status TakeOver(int id, const tensorflow::Tensor& value);

  // Gives one learner the values of another; random generators and what is summed over
  // the learners stay each learner's own.
  absl::Status CopyReplicas(const std::vector<int>& ids, int from, int to);

  // For saving: tensors in it share the replicas' buffers and must be gone before the
  // next learning run.
  int size() const { return static_cast<int>(variables_.size()); }
  absl::StatusOr<ReplicaState> GetState(int id);
  // The same, made ready for `num_learners` learners (2 or more). Where models are
  // averaged, every replica of a trained variable is z. Of all other variables learners
  // that stay keep their values, and new learners get copies of learner 0's. A learner
  // that leaves adds its value of a summed variable to learner 0's.
  absl::StatusOr<ReplicaState> GetState(int id, int num_learners);
  const tensorflow::NodeDef& node(int id) const { return variables_[id].node; }
  // Sets the learners' side of all variables: as in `states`, and for variables not
  // there it will be the central value at the next learning run. `uses`, for Add(), are
  // in the order of `states`. An error before anything has been changed, unless memory
  // runs out.
  absl::Status SetStates(const std::vector<VariableUse>& uses,
                         const std::vector<ReplicaState>& states);
  // A program has placed these variables: brings replicas there that have been set
  // before.
  absl::Status Place(const std::vector<int>& ids);

 private:
  struct Variable {
    tensorflow::NodeDef node;
    std::string container;
    bool trained = false;
    bool generator = false;
    bool summed = false;
    bool first_only = false;
    bool shared = false;
    int model_index = -1;
    bool replicas_stale = true;
    bool central_stale = false;
    bool on_accelerator = false;  // where the replicas lie
    bool released = false;        // the central value, which is stale
    bool eager = false;           // eager code owns the central variable
    bool small = false;           // it has a slice of elements at most
    // The last value that eager code was given; null where that is not kept.
    std::unique_ptr<tensorflow::Tensor> published;
    int stale_for = 0;                      // learning runs
    std::set<int> learned_by;               // since the replicas have been equal
    std::vector<VariableStorage> replicas;  // by learner
  };

  // Whether FollowedStates() has it.
  bool Follows(int id) const;
  // Where a learner keeps its replica.
  tensorflow::Device* DeviceOf(const Variable& variable, int learner) const;
  Memory MemoryOf(const Variable& variable, int learner) const;
  // Whether the central model keeps values of trained variables.
  bool keeps_model() const { return model_->keeps_z() || model_->keeps_average(); }
  // Brings the central model's values of a variable up to date.
  absl::Status Collect(const Variable& variable);
  // The values of all replicas, in host memory.
  absl::StatusOr<std::vector<tensorflow::Tensor>> HostValues(
      const Variable& variable) const;
  absl::Status OpenCentral(const Variable& variable, VariableStorage* storage) const;
  // Of those of the variables whose replicas are out of date.
  absl::Status AgreeOnCentral(const std::vector<int>& ids, const Agreement& agree);
  // The central tensor as it is now (not a copy), or nothing if uninitialised.
  absl::StatusOr<std::optional<tensorflow::Tensor>> CentralTensor(
      const Variable& variable) const;
  absl::Status BroadcastOne(Variable* variable, const tensorflow::Tensor& value);
  absl::Status PublishOne(Variable* variable);
  // The values of a trained variable, in its own type: the central model's or, where it
  // lags, the replicas' mean.
  absl::Status CopyModelTo(const Variable& variable, CentralModel::Which which,
                           void* values);
  absl::Status CopyMeanTo(const Variable& variable, void* values);
  // Before replicas that are out of date go: the central value is then all there is.
  absl::Status PublishIfStale(Variable* variable);
  // The number of replicas that are to be written.
  size_t NumCopies(const Variable& variable) const {
    return variable.shared ? 1 : learners_.size();
  }
  // Returns whether learner 0's replica is the central variable: eager code owns it,
  // all replicas are equal between runs. Small ones (counters) are copied, so that a
  // run that fails leaves them as they were.
  bool InPlace(const Variable& variable) const {
    return variable.eager && (variable.shared || !variable.small) && equal_replicas_ &&
           !keeps_model() && !variable.on_accelerator;
  }
  // Copies of it are to be written, but not the central variable.
  size_t FirstCopy(const Variable& variable) const { return InPlace(variable) ? 1 : 0; }
  // Makes the central variable learner 0's, too, or has learner 0 begin without one.
  absl::Status PlaceEager(const Variable& variable);
  // Keeps a copy of an eager variable's central value, to be compared with.
  void RecordPublished(const std::optional<tensorflow::Tensor>& central,
                       Variable* variable) const;
  // Makes the replicas that the variable has not got yet, uninitialised.
  absl::Status OpenReplicas(Variable* variable);
  absl::Status CheckState(const VariableUse& use, const ReplicaState& state) const;
  absl::Status SetState(Variable* variable, const ReplicaState& state);

  tensorflow::Device* const central_device_;
  const std::vector<Learner*> learners_;
  CentralModel* const model_;
  Synchroniser* const synchroniser_;
  std::vector<Variable> variables_;
  std::map<std::string, int> ids_;
  int num_trained_ = 0;
  int first_random_stream_ = 0;
  bool equal_replicas_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REPLICAS_VARIABLE_TABLE_H_
