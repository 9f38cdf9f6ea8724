#include "cc/coordination/host_coordinator.h"

#include "cc/coordination/elastic_hosts.h"
#include "cc/coordination/lockstep_hosts.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/coordination/one_host.h"

namespace tensorbow {

std::unique_ptr<HostCoordinator> NewHostCoordinator(HostRounds* rounds, bool merges,
                                                    HostTraining* training) {
  if (rounds == nullptr) return std::make_unique<OneHost>();
  if (merges) return std::make_unique<MergingHosts>(rounds, training);
  if (rounds->hosts()->elastic()) {
    return std::make_unique<ElasticHosts>(rounds, training);
  }
  return std::make_unique<LockstepHosts>(rounds, training);
}

}  // namespace tensorbow
