// One learner: the devices on which a replica is trained, and its step.
//
// A learner owns its devices (a CPU of its own and, with accelerators, one stream
// group), allocator and kernels. It owns a worker thread, unless it works on the
// caller's thread. It executes the same task graph as its siblings on variables of its
// own. One task at a time; different learners run concurrently.
#ifndef TENSORBOW_CC_LEARNER_LEARNER_H_
#define TENSORBOW_CC_LEARNER_LEARNER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cc/device/accelerator.h"
#include "cc/device/cpu/learner_cpu_device.h"
#include "cc/graph/task_graph.h"
#include "cc/learner/graph_threads.h"
#include "cc/learner/task_recorder.h"
#include "cc/learner/worker.h"
#include "cc/memory/learner_allocator.h"
#include "cc/support/completion_queue.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/session_state.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// The objects that all learners of a session share. Not owned; outlives the learners.
struct LearnerEnvironment {
  const tensorflow::SessionOptions* options = nullptr;
  // The session's CPU.
  tensorflow::Device* central_device = nullptr;
  // Runs closures that do not come from a learner's own thread.
  std::function<void(std::function<void()>)> host_runner;
  // Finds or makes the one kernel that exists per session for a node.
  std::function<absl::Status(const std::shared_ptr<const tensorflow::NodeProperties>&,
                             tensorflow::FunctionLibraryRuntime*,
                             tensorflow::OpKernel**)>
      shared_kernel;
  // True if random ops continue the draws of the central session's runs (a lone
  // learner); otherwise they have kernels of their own.
  bool shares_random_state = false;
  // True if tasks on accelerators are recorded and replayed when possible.
  bool record_tasks = false;
  // Called with the reason if it is not possible.
  std::function<void(const std::string&)> recording_refused;
  // The devices of variables that tasks have used; empty without accelerators.
  VariableDevices variable_devices;
  // Changes when replicas may have moved.
  std::atomic<int64_t> replica_generation{0};
};

class Learner {
 public:
  // A task graph made executable for this learner.
  class Program {
   public:
    ~Program();
    // The graphs it executes.
    const TaskGraph& task() const { return task_; }

   private:
    friend class Learner;
    TaskGraph task_;
    std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> runtime_;
    std::vector<std::unique_ptr<tensorflow::Executor>> executors_;  // by part
    std::unique_ptr<TaskRecorder> recorder_;  // null: tasks are never recorded
    bool may_block_ = false;                  // an op may wait for another op
    mutable absl::Duration last_task_;        // the last task's duration
  };

  // One execution of a program.
  struct Task {
    const std::vector<tensorflow::Tensor>* feeds = nullptr;
    tensorflow::CancellationManager* cancellation = nullptr;
    tensorflow::StepStatsCollectorInterface* stats = nullptr;  // may be null
  };

  // `accelerator`: the device to compute on, null for the CPU.
  Learner(int id, const LearnerEnvironment& environment,
          std::unique_ptr<AcceleratorDevice> accelerator = nullptr);
  ~Learner();

  // Makes the learner ready for programs, with these threads, as one of `neighbours`
  // learners that share the `bytes` of its accelerator, itself included. Learner 0
  // works on the calling thread and has no worker.
  void Begin(const LearnerThreads& threads, std::chrono::microseconds spin,
             int neighbours, int64_t bytes);
  // Deletes its kernels, ends its threads and returns its memory, until Begin() is
  // called again. REQUIRES: its programs and its copies of variables are gone, or the
  // session ends. Called before the session's resources are released, to which kernels
  // may refer. Its devices stay: a data pipeline may continue to use them.
  void End();

  // Sets the allocator's present and highest numbers of bytes in use.
  void GetMemory(int64_t* bytes, int64_t* peak_bytes) const;

  LearnerCpuDevice* device() const { return device_; }
  AcceleratorDevice* accelerator() const { return accelerator_; }  // or null
  // Returns whether the learner's copy of a variable, by the name of the node, is
  // there.
  bool KeepsOnAccelerator(const std::string& variable) const;
  Worker* worker() const { return worker_.get(); }  // null for learner 0

  // Runs the graph optimisations that need a device's kernels.
  void Optimise(TaskGraph* task) const;
  // `task`: the learner's own copy (SpecialiseTaskGraph).
  absl::StatusOr<std::unique_ptr<Program>> Compile(TaskGraph task) const;

  // Executes on the calling thread. `fetches` are in the order of the spec; those of an
  // accelerator have their values when Finish() has returned.
  absl::Status Execute(const Program& program, const Task& task,
                       std::vector<tensorflow::Tensor>* fetches);
  // Waits until all executed tasks are done.
  absl::Status Finish();

  // Appends the graph that `program` executes, for RunMetadata.
  static void AppendGraph(const Program& program, tensorflow::GraphDef* graph);

 private:
  absl::StatusOr<std::unique_ptr<tensorflow::Executor>> NewExecutor(
      const TaskPart& part,
      const tensorflow::ProcessFunctionLibraryRuntime& runtime) const;
  // Executes a closure of the current task, or one that a data pipeline has kept of it.
  void RunClosure(std::function<void()> closure);
  // Executes with feeds and fetches on the devices where the program keeps them.
  absl::Status ExecuteParts(const Program& program, const Task& task,
                            const std::vector<tensorflow::Tensor>& feeds,
                            std::vector<tensorflow::Tensor>* fetches);
  absl::Status ExecuteOnAccelerator(const Program& program, const Task& task,
                                    std::vector<tensorflow::Tensor>* fetches);

  const int id_;
  bool working_ = false;
  const LearnerEnvironment& environment_;
  CompletionQueue
      completions_;  // of asynchronous kernels, for the learner's own thread
  LearnerAllocator::Owner allocator_;
  std::unique_ptr<tensorflow::StaticDeviceMgr> devices_;
  LearnerCpuDevice* device_ = nullptr;        // owned by devices_
  AcceleratorDevice* accelerator_ = nullptr;  // owned by devices_
  tensorflow::SessionState session_state_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<GraphThreads> graph_threads_;  // null: one thread executes the graph
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_LEARNER_H_
