// One learner: the device world in which a replica is trained, and its step.
//
// A learner owns its device, allocator, kernels and (unless it works on the caller's
// thread) a worker thread. It executes the same task graph as its siblings on
// variables of its own. One task at a time; different learners run concurrently.
#ifndef TENSORBOW_CC_LEARNER_LEARNER_H_
#define TENSORBOW_CC_LEARNER_LEARNER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "cc/device/cpu/learner_cpu_device.h"
#include "cc/learner/worker.h"
#include "cc/memory/learner_allocator.h"
#include "cc/rewrite/learner_graph.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/session_state.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// What all learners of a session share. Not owned; outlives the learners.
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
  // Whether random ops go on drawing where the central session's runs stopped (a lone
  // learner) or have kernels of their own.
  bool shares_random_state = false;
};

class Learner {
 public:
  // A task graph made executable for this learner.
  class Program {
   public:
    ~Program();
    // What it executes.
    const tensorflow::Graph& graph() const { return *graph_; }

   private:
    friend class Learner;
    std::unique_ptr<tensorflow::FunctionLibraryDefinition> functions_;
    std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> runtime_;
    std::unique_ptr<tensorflow::Graph> graph_;
    std::unique_ptr<tensorflow::Executor> executor_;
    tensorflow::DataTypeVector feed_types_;
    tensorflow::DataTypeVector fetch_types_;
  };

  // One execution of a program.
  struct Task {
    const std::vector<tensorflow::Tensor>* feeds = nullptr;
    int64_t step_id = 0;  // unique in the process
    tensorflow::CancellationManager* cancellation = nullptr;
    tensorflow::StepStatsCollectorInterface* stats = nullptr;  // may be null
  };

  // `cpu`: the CPU for the learner's own thread, -1 for any. Learner 0 works on the
  // thread that calls it and has no worker.
  Learner(int id, const LearnerEnvironment& environment, int cpu,
          std::chrono::microseconds spin);
  ~Learner();

  // Deletes the learner's kernels. REQUIRES: its programs are gone. Called before the
  // session's resources are released, which kernels may refer to.
  void ReleaseKernels();

  int id() const { return id_; }
  LearnerCpuDevice* device() const { return device_; }
  Worker* worker() const { return worker_.get(); }  // null for learner 0

  // Runs the graph optimisations that need a device's kernels.
  void Optimise(TaskGraph* task) const;
  absl::Status Compile(const TaskGraph& task, const Specialisation& specialisation,
                       std::unique_ptr<Program>* program) const;

  // Executes on the calling thread. `fetches` are in the order of the spec.
  absl::Status Execute(const Program& program, const Task& task,
                       std::vector<tensorflow::Tensor>* fetches);

  // The graph that `program` executes, for RunMetadata.
  static void AppendGraph(const Program& program, tensorflow::GraphDef* graph);

 private:
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> NewRuntime(
      const TaskGraph& task,
      const tensorflow::FunctionLibraryDefinition* functions) const;

  const int id_;
  const LearnerEnvironment& environment_;
  LearnerAllocator::Owner allocator_;
  std::unique_ptr<tensorflow::StaticDeviceMgr> devices_;
  LearnerCpuDevice* device_ = nullptr;  // owned by devices_
  tensorflow::SessionState session_state_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_LEARNER_H_
