// The learners of one session and what they share: their devices, the pool for closures
// that belong to no learner, the kernels that exist once per session.
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
  // outlive the group. `accelerators`: what learners compute on; null for the CPU.
  // `recording_refused`: called with the reason where the user wants tasks recorded and
  // they cannot be.
  LearnerGroup(const tensorflow::SessionOptions& session_options,
               const Options& options, tensorflow::Session* central,
               tensorflow::Device* central_device, AcceleratorBackend* accelerators,
               std::function<void(const std::string&)> recording_refused);
  // Makes the learners of a layout that do not exist yet. After an error the group is
  // as it was.
  absl::Status Make(const Layout& layout);
  // Makes so many learners, which exist, ready; those that go stop until they come
  // back. Called first of all, and again when no program and no replica of a variable
  // is left. Learner j computes on accelerator j modulo their number, for good.
  void SetLayout(const Layout& layout);
  // Learners on all devices.
  int SizeOf(const Layout& layout) const { return layout.learners * num_devices(); }
  // The layout that the user asks for, or the one to begin with.
  absl::StatusOr<Layout> FirstLayout() const;
  // So many learners on each device, of as many threads as the user asks for.
  // FailedPrecondition where that is a number for each of other learners.
  absl::StatusOr<Layout> LayoutOf(int learners_per_device) const;

  const Layout& layout() const { return layout_; }
  // On all devices. May be called at any time.
  int size() const { return size_.load(std::memory_order_relaxed); }
  Learner& operator[](int learner) const { return *learners_[learner]; }
  // Polling pays only if every learner has a core of its own; else 0.
  std::chrono::microseconds spin() const { return spin_; }
  tensorflow::Device* central_device() const { return environment_.central_device; }
  AcceleratorBackend* accelerators() const { return accelerators_; }  // null: the CPU
  // Whether random ops go on drawing where the central session's runs stopped.
  bool shares_random_state() const { return environment_.shares_random_state; }
  // For people: what each learner computes on.
  std::vector<std::string> Descriptions() const;

  // The devices that tasks are placed on; `all` keeps the set.
  TaskDevices Devices(tensorflow::DeviceSet* all);
  // Asks the central session for the name under which it keeps kernels, if that is not
  // known yet. From then on a kernel that exists once per session is shared: the
  // session or a learner makes it, and both use it.
  absl::Status FindCentralHandle(const ProgramGraph& graph);
  // Has the central session make kernels for these nodes of `graph`, if there are none
  // yet. Such kernels may keep the library of functions that they are made with, and
  // the session's lives long enough.
  absl::Status EnsureSharedKernels(const ProgramGraph& graph,
                                   const std::vector<std::string>& nodes);
  // Replicas may have moved since the last task.
  void NoteMovedReplicas() { environment_.replica_generation.fetch_add(1); }
  // Where learners share accelerators: whether each of so many on a device has memory
  // for tasks like those of learner 0 so far.
  absl::Status CheckMemory(int learners_per_device) const;

  // While the central session still lives. REQUIRES: no program is left.
  void ReleaseKernels();

 private:
  int num_devices() const;  // that learners compute on

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
  std::vector<std::unique_ptr<Learner>> learners_;  // also those that have gone

  // Nodes whose kernels exist, and the name under which the central session keeps them
  // ("" until it is needed).
  std::set<std::string> shared_kernels_;
  std::string central_handle_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_LEARNER_GROUP_H_
