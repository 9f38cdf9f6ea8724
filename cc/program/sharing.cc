#include "cc/program/sharing.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tensorbow {

Sharing::Names Sharing::Agree(const SharableVariables& program) {
  absl::MutexLock lock(&mu_);
  Names sharable;
  for (const auto& group : program.groups) sharable.insert(group.begin(), group.end());
  std::set_difference(program.used.begin(), program.used.end(), sharable.begin(),
                      sharable.end(), std::inserter(unshared_, unshared_.end()));
  for (size_t before = unshared_.size() + 1; before != unshared_.size();) {
    before = unshared_.size();
    for (const auto& group : program.groups) {
      bool breaks = false;
      for (const std::string& name : group) breaks |= unshared_.count(name) > 0;
      if (breaks) unshared_.insert(group.begin(), group.end());
    }
  }
  Names agreed;
  std::set_difference(sharable.begin(), sharable.end(), unshared_.begin(),
                      unshared_.end(), std::inserter(agreed, agreed.end()));
  shared_.insert(agreed.begin(), agreed.end());
  for (const std::string& name : unshared_) {
    if (shared_.erase(name) > 0) stopped_.insert(name);
  }
  return agreed;
}

Sharing::Names Sharing::TakeStopped() {
  absl::MutexLock lock(&mu_);
  return std::exchange(stopped_, {});
}

}  // namespace tensorbow
