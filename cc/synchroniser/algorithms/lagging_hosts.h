// SMA with a lagging centre (sma.h) over the learners of several hosts:
//
//   c_j    = α (w_j − z)           for the learners of all hosts
//   z_next = z + Σ_j c_j + μ (z − z_prev)
//
// A host adds up its learners' corrections during an iteration, and sends the sum after
// it. It needs the sum of all hosts, and so z_next, when the next iteration updates its
// first slice. Until then the slice is not up to date: z and z_prev are the old ones,
// and the iteration can be undone.
//
// After a restart on some host, no host has momentum: all have the same z, bit for bit.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_LAGGING_HOSTS_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_LAGGING_HOSTS_H_

#include <memory>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

// Makes the algorithm. `num_learners`: of this host. `hosts`, `central`: not owned.
std::unique_ptr<Algorithm> NewLaggingOverHosts(const SmaOptions& options,
                                               int num_learners, CentralModel* central,
                                               Hosts* hosts);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_LAGGING_HOSTS_H_
