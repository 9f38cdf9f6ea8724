// Sums of the replicas over the hosts of a cluster, made while the next iteration
// computes. The values of a set of variables travel in chunks: a host that has ended an
// iteration of the set sends what its learners' replicas add up to (Send), and needs
// the mean of all hosts' learners when the first slice is updated in the next one
// (Receive).
//
// Send() is called between two iterations, Receive() concurrently for different slices.
// All slices of a variable are received before it is sent again.
#ifndef TENSORBOW_CC_SYNCHRONISER_HOST_AVERAGE_H_
#define TENSORBOW_CC_SYNCHRONISER_HOST_AVERAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/support/mutex.h"
#include "cc/synchroniser/hosts.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class HostAverage {
 public:
  // Elements of a chunk: large enough for the network's bandwidth, small enough that
  // one is on its way while the next is added up.
  static constexpr int64_t kChunkElements = 1 << 20;

  // Neither is owned.
  HostAverage(Hosts* hosts, CentralModel* central) : hosts_(hosts), central_(central) {}

  // Sends the sum of the replicas of the learners `present` of some members of the set,
  // at least one; none of them changes before it returns.
  void Send(const TrainedSet& set, const std::vector<int>& members,
            const std::vector<int>& present);

  // z of a slice ← the mean of what all hosts have sent. Leaves it as it is if the
  // hosts have failed (Hosts::error()). REQUIRES: the variable has been sent.
  void Receive(int variable, int slice);

 private:
  struct Chunk {
    bool wide;         // of doubles, else of floats
    int64_t size = 0;  // elements of variables; one more counts the learners
    std::unique_ptr<HostSum> sum;
    int64_t filled = 0;  // elements that have been added up
    Mutex mu;
    bool under_way TENSORBOW_GUARDED_BY(mu) = false;
    bool failed TENSORBOW_GUARDED_BY(mu) = false;
  };
  struct Place {
    Chunk* chunk = nullptr;
    int64_t begin = 0;
  };
  struct Layout {
    std::vector<std::unique_ptr<Chunk>> chunks;
    std::vector<std::vector<Place>> places;  // by position in `members`, and slice
  };

  const Layout& LayoutOf(const TrainedSet& set, const std::vector<int>& members);
  void SendSlice(const TrainedSet& set, int member, int slice,
                 const std::vector<int>& present, const Place& place);
  // Whether the sum has been made.
  bool Await(Chunk* chunk);

  Hosts* const hosts_;
  CentralModel* const central_;
  std::map<std::vector<int>, Layout> layouts_;  // by the variables that are sent
  // By variable of the model and slice: where it was sent last.
  std::vector<std::vector<Place>> places_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOST_AVERAGE_H_
