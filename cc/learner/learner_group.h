// The learners of one session with the things that they share: devices, the pool for
// closures that belong to no learner, the kernels that exist once per session.
#ifndef TENSORBOW_CC_LEARNER_LEARNER_GROUP_H_
#define TENSORBOW_CC_LEARNER_LEARNER_GROUP_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/config/options.h"
#include "cc/device/accelerator.h"
#include "cc/graph/program_graph.h"
#include "cc/graph/task_graph.h"
#include "cc/learner/learner.h"
#include "cc/tuner/layout.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

class LearnerGroup {
 public:
  // `central`: the stock session that keeps the central variables on `central_device`;
  // not owned, outlives the group's ReleaseKernels(). `session_options` and `options`
  // outlive the group. `accelerators`: the devices of learners; null for the CPU.
  // `recording_refused`: called with the reason if the user wants tasks recorded and
  // they cannot be.
  LearnerGroup(const tensorflow::SessionOptions& session_options,
               const Options& options, tensorflow::Session* central,
               tensorflow::Device* central_device, AcceleratorBackend* accelerators,
               std::function<void(const std::string&)> recording_refused);
  // Makes the missing learners of a layout. After an error the group is unchanged.
  absl::Status Make(const Layout& layout);
  // Makes this number of existing learners ready; the others stop until they are needed
  // again. Called first of all, and again when no program and no replica of a variable
  // is left. Learner j always computes on accelerator j modulo their number.
  void SetLayout(const Layout& layout);
  // Returns the number of learners on all devices.
  int SizeOf(const Layout& layout) const { return layout.learners * num_devices(); }
  // Returns the layout that the user wants, or the first one of the tuner.
  absl::StatusOr<Layout> FirstLayout() const;
  // Returns a layout of this number of learners on each device, with the user's number
  // of threads. FailedPrecondition if the user has given numbers for another number of
  // learners.
  absl::StatusOr<Layout> LayoutOf(int learners_per_device) const;

  const Layout& layout() const { return layout_; }
  // Returns the number on all devices. May be called at any time.
  int size() const { return size_.load(std::memory_order_relaxed); }
  Learner& operator[](int learner) const { return *learners_[learner]; }
  // Returns the time to poll; 0 unless every learner has a core of its own.
  std::chrono::microseconds spin() const { return spin_; }
  tensorflow::Device* central_device() const { return environment_.central_device; }
  AcceleratorBackend* accelerators() const { return accelerators_; }  // null: CPU
  // Returns whether random ops continue the draws of the central session's runs.
  bool shares_random_state() const { return environment_.shares_random_state; }
  // Describes the device of each learner for users.
  std::vector<std::string> Descriptions() const;

  // Returns the devices on which tasks are placed; `all` keeps the set.
  TaskDevices Devices(tensorflow::DeviceSet* all);
  // Asks the central session for the name under which it keeps kernels, if not yet
  // known. From then on a kernel that exists once per session is shared: the session or
  // a learner makes it, and both use it.
  absl::Status FindCentralHandle(const ProgramGraph& graph);
  // Makes the central session create missing kernels of these nodes of `graph`. Such
  // kernels may keep the library of functions of their creation, and the session's
  // lives long enough.
  absl::Status EnsureSharedKernels(const ProgramGraph& graph,
                                   const std::vector<std::string>& nodes);
  // Records that replicas may have moved since the last task.
  void NoteMovedReplicas() { environment_.replica_generation.fetch_add(1); }
  // Returns an error unless each of this number of learners on a shared accelerator has
  // memory for the tasks of learner 0 so far.
  absl::Status CheckMemory(int learners_per_device) const;

  // Releases kernels before the central session ends. REQUIRES: no program is left.
  void ReleaseKernels();

 private:
  int num_devices() const;  // of learners

  const tensorflow::SessionOptions& session_options_;
  const Options& options_;
  tensorflow::Session* const central_;      // not owned
  AcceleratorBackend* const accelerators_;  // not owned, or null
  std::atomic<int> size_{0};
  Layout layout_;

  std::unique_ptr<tensorflow::thread::ThreadPool> host_pool_;  // made when needed
  absl::once_flag host_pool_once_;
  LearnerEnvironment environment_;
  std::chrono::microseconds spin_{0};
  std::vector<std::unique_ptr<Learner>> learners_;  // including stopped ones

  // Nodes whose kernels exist, and the name under which the central session keeps them
  // ("" until it is needed).
  std::set<std::string> shared_kernels_;
  std::string central_handle_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_LEARNER_GROUP_H_
