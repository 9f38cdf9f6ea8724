// Means of the replicas over the hosts of a cluster, which overlap with the next
// iteration. After an iteration a host sends the sum of its learners' replicas (Send).
// It needs the mean of all hosts' learners when the next one updates its first slice
// (Receive).
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

  // Sends the sum of the participants' replicas, at least one, for some members of the
  // set. REQUIRES: no replica changes meanwhile.
  void Send(const TrainedSet& set, const std::vector<int>& members,
            const std::vector<int>& participants);

  // Sets z of a slice to the mean of all hosts. Keeps it if the hosts have failed
  // (Hosts::error()). REQUIRES: the variable has been sent.
  void Receive(int variable, int slice);
  // Waits for the means of all slices. Returns whether they have arrived.
  bool HasArrived(int variable) { return chunks_.HasArrived(variable); }

 private:
  // Adds up a slice of this host's replicas.
  void Fill(const TrainedSet& set, int member, int slice,
            const std::vector<int>& participants, const HostChunks::Place& place);

  HostChunks chunks_;  // notes count learners
  CentralModel* const central_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_HOST_AVERAGE_H_
