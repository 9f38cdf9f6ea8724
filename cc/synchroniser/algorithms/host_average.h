// Sums of the replicas over the hosts of a cluster, made while the next iteration
// computes: a host that has ended an iteration of a set of variables sends what its
// learners' replicas add up to (Send), and needs the mean of all hosts' learners when
// the first slice is updated in the next one (Receive).
//
// Send() is called between two iterations, Receive() concurrently for different slices.
// All slices of a variable are received before it is sent again.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_AVERAGE_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_AVERAGE_H_

#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/hosts/host_chunks.h"
#include "cc/synchroniser/hosts/hosts.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class HostAverage {
 public:
  // Neither is owned.
  HostAverage(Hosts* hosts, CentralModel* central)
      : chunks_(hosts, central), central_(central) {}

  // Sends the sum of the replicas of the learners `present` of some members of the set,
  // at least one; none of them changes before it returns.
  void Send(const TrainedSet& set, const std::vector<int>& members,
            const std::vector<int>& present);

  // z of a slice ← the mean of what all hosts have sent. Leaves it as it is if the
  // hosts have failed (Hosts::error()). REQUIRES: the variable has been sent.
  void Receive(int variable, int slice);
  // Waits for the means of all slices. Whether they are there.
  bool HasArrived(int variable) { return chunks_.HasArrived(variable); }

 private:
  // Adds up what is sent of a slice.
  void Fill(const TrainedSet& set, int member, int slice,
            const std::vector<int>& present, const HostChunks::Place& place);

  HostChunks chunks_;  // whose notes count learners
  CentralModel* const central_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_AVERAGE_H_
