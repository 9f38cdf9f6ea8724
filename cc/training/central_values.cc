// The memory of central values that nobody reads while learners train:
// ReplicatedVariables::ReleaseStale and PublishReleased.
#include <cstdint>
#include <set>
#include <string>

#include "cc/support/freed_memory.h"
#include "cc/training/replicated_variables.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// A program that looks at the central model more often keeps it.
constexpr int kRunsUntilReleased = 4;

}  // namespace

absl::Status ReplicatedVariables::ReleaseStale(const std::set<std::string>& kept) {
  int64_t bytes = 0;
  for (Variable& variable : variables_) {
    if (!variable.central_stale || variable.released ||
        variable.stale_for < kRunsUntilReleased ||
        !variable.replicas[0].initialised() || kept.count(variable.node.name()) > 0) {
      continue;
    }
    VariableStorage central;
    TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
    if (!central.initialised()) continue;
    tf::mutex_lock lock(*central.mu());
    bytes += central.value().TotalBytes();
    central.Clear();
    variable.released = true;
  }
  ReturnFreedMemory(bytes);
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::PublishReleased() {
  for (Variable& variable : variables_) {
    if (variable.released) TF_RETURN_IF_ERROR(PublishOne(&variable));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
