// Coordinates hosts that train in lockstep: if one is lost, all end with an error.
#ifndef TENSORBOW_CC_COORDINATION_LOCKSTEP_HOSTS_H_
#define TENSORBOW_CC_COORDINATION_LOCKSTEP_HOSTS_H_

#include <vector>

#include "cc/coordination/connected_hosts.h"

namespace tensorbow {

class LockstepHosts : public ConnectedHosts {
 public:
  using ConnectedHosts::ConnectedHosts;

  absl::StatusOr<bool> AfterRun(const HostRun& run) override;

 private:
  absl::Status CatchUp(const std::vector<int>& written) override;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_LOCKSTEP_HOSTS_H_
