// The variables of a session that learners have copies of, and the traffic between
// the copies and the central model.
//
//   central variable   an ordinary variable of the stock session, for reads, writes and
//                      Saver
//   replica            a learner's variable, in the learner's container; if learners
//                      share the variable, all are learner 0's
//
// Both directions are lazy. Broadcast() brings replicas up to date after a write,
// Publish() brings central variables up to date after learning: a trained variable
// gets z, other floating-point state the learners' mean, everything else learner 0's
// value; a variable's node may say otherwise (kAggregationAttribute). Not thread-safe:
// called while no learner is running.
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

// The learners' side of a replicated variable, as it is saved.
struct ReplicaState {
  std::string name;
  bool trained = false;
  bool generator = false;
  // The learners' values; empty if replicas have to start from the central value.
  std::vector<tensorflow::Tensor> replicas;
  // Flat, in the accumulation type; empty if the central model does not keep them.
  tensorflow::Tensor z, previous;
  tensorflow::Tensor average;
  int64_t model_iterations = 0;
  std::vector<int64_t> present;     // z is their mean; empty: the model has no z
  std::vector<int64_t> learned_by;  // since the replicas have been equal
};

class VariableTable {
 public:
  // Nothing is owned. `learners` may be empty: nothing is replicated then.
  VariableTable(tensorflow::Device* central_device, std::vector<Learner*> learners,
                CentralModel* model, Synchroniser* synchroniser);

  // Sets the number of the first learner's random stream, 0 by default. Called before
  // anything is replicated.
  void set_first_random_stream(int first) { first_random_stream_ = first; }
  // Declares all replicas equal, untrained variables included. Called before anything
  // is replicated.
  void set_equal_replicas() { equal_replicas_ = true; }

  // Deletes the replicas.
  ~VariableTable();

  // Adds a variable, unless the table has it. Returns its id.
  int Add(const VariableUse& use);
  // Returns the id of the variable with this node name, or -1.
  int Find(const std::string& name) const;

  // Share() gives all learners one copy of these variables, Separate() each its own.
  // Separate() ignores names that are not replicated. REQUIRES: all programs use the
  // variables in that way from now on. Replicas of trained variables are equal.
  absl::Status Share(const std::vector<int>& ids);
  absl::Status Separate(const std::set<std::string>& names);

  // Overwrites values, by variable, with the values to go on from.
  using Agreement =
      std::function<absl::Status(std::map<std::string, tensorflow::Tensor>*)>;
  // Copies central values to all replicas that are out of date. Lists variables whose
  // central value is uninitialised, and leaves their replicas alone. If there are none,
  // `agree`, if any, overwrites the central values first. Sets `*any` if it copied one.
  absl::Status Broadcast(const std::vector<int>& ids, const Agreement& agree,
                         std::vector<int>* uninitialised, bool* any);
  // Returns whether some program trains the variable.
  bool trained(int id) const { return variables_[id].trained; }
  // Returns whether hosts share the variable: learners have no values of their own. A
  // host without data takes over the others' value.
  bool follows_others(int id) const {
    const Variable& variable = variables_[id];
    return variable.trained || !(variable.generator || variable.summed);
  }
  // Returns whether the replicas are the learners' values; else a broadcast is due.
  bool replicas_up_to_date(int id) const { return !variables_[id].replicas_stale; }
  // Returns whether the central model has it: it is trained and has been broadcast.
  bool in_model(int id) const { return variables_[id].model_index >= 0; }
  int num_trained() const { return num_trained_; }
  // Returns the index of a trained variable in the central model. REQUIRES: it has been
  // broadcast.
  int model_index(int id) const { return variables_[id].model_index; }

  // Sets the buffer of `learner` for the set's `member`, variable `id`. The buffer is
  // shared with nobody afterwards. Different learners may call it concurrently.
  absl::Status Locate(int id, int learner, int member, TrainedSet* set);

  // Marks the variables as changed by these learners.
  void MarkLearned(const std::vector<int>& ids, const std::vector<int>& learners);
  absl::Status Publish(const std::vector<int>& ids);

  // Marks the replicas of variables that eager code has written since the last run as
  // out of date. Called before a run.
  void DetectEagerWrites(const std::vector<int>& ids);
  // Publishes those variables among these that eager code owns, after a run.
  absl::Status PublishEager(const std::vector<int>& ids);

  // Sets central variables to the replicas' mean, before one learner goes on with the
  // central model. A lagging z lacks the last update of each learner, a moving average
  // most of them. Replicas will restart from that learner's values.
  absl::Status Gather(const std::vector<int>& ids);
  absl::Status PublishAll();
  // Releases the memory of central values that have been out of date for some learning
  // runs, until they are published again. `kept`: variables to leave alone. REQUIRES:
  // no central run reads any without a call of Publish() before.
  absl::Status ReleaseStale(const std::set<std::string>& kept);
  // Publishes all released values.
  absl::Status PublishReleased();
  // Sets the central variable to z itself, not to its moving average.
  absl::Status PublishModel(int id);

  // Marks the central variable as assigned to; ignores names that are not replicated.
  void MarkAssigned(const std::string& name);

  // Return copies of the central value of a variable (replicated or not), and of a
  // learner's.
  absl::StatusOr<tensorflow::Tensor> CentralValue(const tensorflow::NodeDef& node);
  absl::StatusOr<tensorflow::Tensor> ReplicaValue(int id, int learner);
  // Returns a copy of the central model's value of a trained variable; for others, of
  // the central value.
  absl::StatusOr<tensorflow::Tensor> ModelValue(int id, CentralModel::Which which);

  // Return and set the values that the central model keeps, by variable, after all
  // completed iterations. Replicas stay as they are.
  absl::StatusOr<std::map<std::string, tensorflow::Tensor>> ModelStates();
  void SetModelStates(const std::map<std::string, tensorflow::Tensor>& values);
  // Returns the names, dtypes and shapes of the variables, as text.
  std::string Describe() const;
  // Return and set the values that hosts share and the central model does not keep, by
  // variable: the first learner's, for all learners.
  absl::StatusOr<std::map<std::string, tensorflow::Tensor>> FollowedStates() const;
  absl::Status TakeOverStates(const std::map<std::string, tensorflow::Tensor>& values);
  // Sets all learners' values to another host's.
  absl::Status TakeOver(int id, const tensorflow::Tensor& value);

  // Copies values from one learner to another. Random generators and summed variables
  // stay each learner's own.
  absl::Status CopyReplicas(const std::vector<int>& ids, int from, int to);

  // Returns the state for saving. Its tensors share the replicas' buffers: they must be
  // destroyed before the next learning run.
  int size() const { return static_cast<int>(variables_.size()); }
  absl::StatusOr<ReplicaState> GetState(int id);
  // Returns the state for `num_learners` learners (2 or more). If models are averaged,
  // every replica of a trained variable is z. Otherwise learners that stay keep their
  // values, and new learners get copies of learner 0's. A learner that leaves adds its
  // value of a summed variable to learner 0's.
  absl::StatusOr<ReplicaState> GetState(int id, int num_learners);
  const tensorflow::NodeDef& node(int id) const { return variables_[id].node; }
  // Sets the learners' side of all variables. Variables that are not in `states` start
  // from the central value in the next learning run. `uses`, for Add(), are in the
  // order of `states`. After an error nothing has changed, unless memory runs out.
  absl::Status SetStates(const std::vector<VariableUse>& uses,
                         const std::vector<ReplicaState>& states);
  // Moves the replicas of these variables to where a program has placed them.
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
    // The last value that eager code was given; null where that is not kept.
    std::unique_ptr<tensorflow::Tensor> published;
    int stale_for = 0;                      // learning runs
    std::set<int> learned_by;               // since the replicas have been equal
    std::vector<VariableStorage> replicas;  // by learner
  };

  // Returns whether FollowedStates() has it.
  bool Follows(int id) const;
  // Returns the device of a learner's replica.
  tensorflow::Device* DeviceOf(const Variable& variable, int learner) const;
  Memory MemoryOf(const Variable& variable, int learner) const;
  // Returns whether the central model keeps values of trained variables.
  bool keeps_model() const { return model_->keeps_z() || model_->keeps_average(); }
  // Brings the central model's values of a variable up to date.
  absl::Status Collect(const Variable& variable);
  // Returns the values of all replicas, in host memory.
  absl::StatusOr<std::vector<tensorflow::Tensor>> HostValues(
      const Variable& variable) const;
  absl::Status OpenCentral(const Variable& variable, VariableStorage* storage) const;
  // Lets hosts agree on the variables with stale replicas.
  absl::Status AgreeOnCentral(const std::vector<int>& ids, const Agreement& agree);
  // Returns the central tensor (not a copy), or nothing if it is uninitialised.
  absl::StatusOr<std::optional<tensorflow::Tensor>> CentralTensor(
      const Variable& variable) const;
  absl::Status BroadcastOne(Variable* variable, const tensorflow::Tensor& value);
  absl::Status PublishOne(Variable* variable);
  // Copies the values of a trained variable, in its own type: the central model's or,
  // if that lags, the replicas' mean.
  absl::Status CopyModelTo(const Variable& variable, CentralModel::Which which,
                           void* values);
  absl::Status CopyMeanTo(const Variable& variable, void* values);
  // Publishes a variable before its replicas are deleted.
  absl::Status PublishIfStale(Variable* variable);
  // Returns the number of replicas to write.
  size_t NumCopies(const Variable& variable) const {
    return variable.shared ? 1 : learners_.size();
  }
  // Returns whether learner 0's replica is the central variable: eager code owns it,
  // all replicas are equal between runs.
  bool InPlace(const Variable& variable) const {
    return variable.eager && equal_replicas_ && !keeps_model() &&
           !variable.on_accelerator;
  }
  // Returns the first replica that is a copy, not the central variable.
  size_t FirstCopy(const Variable& variable) const { return InPlace(variable) ? 1 : 0; }
  // Makes the central variable learner 0's replica, or gives learner 0 none yet.
  absl::Status PlaceEager(const Variable& variable);
  // Keeps a copy of an eager variable's central value, for comparison.
  void RecordPublished(const std::optional<tensorflow::Tensor>& central,
                       Variable* variable) const;
  // Makes missing replicas of the variable, uninitialised.
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
