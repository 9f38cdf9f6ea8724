// Chunks of a central model's slices, each an all-reduce over the hosts of a cluster.
// The slices of a set of variables lie one after the other, by type. A chunk also
// carries a number for each of its variables, its note.
//
// Thread-safe unless stated otherwise. The caller decides who writes a slice and who
// starts a chunk.
#ifndef TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_CHUNKS_H_
#define TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_CHUNKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/support/mutex.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

class HostChunks {
 public:
  // The elements of a chunk: enough for the network's bandwidth, few enough to overlap
  // sending with adding up.
  static constexpr int64_t kChunkElements = 1 << 20;

  class Chunk {
   public:
    // `wide`: holds doubles, else floats.
    explicit Chunk(bool wide) : wide_(wide) {}

    // This host's values, or the sums after Await(). REQUIRES: no sum is under way.
    template <typename A>
    A* values() {
      return sum_->as<A>();
    }
    void SetNote(int64_t at, double note);

    // REQUIRES: no sum is under way.
    void Start();
    // Adds to the number of elements filled since the last start; starts the sum once
    // all are. Not thread-safe.
    void Fill(int64_t elements);
    // Waits for the last sum, if any. Returns whether it succeeded.
    bool Await();

   private:
    friend class HostChunks;

    const bool wide_;
    int64_t size_ = 0;  // elements of slices, which notes follow
    int64_t num_notes_ = 0;
    int64_t filled_ = 0;
    std::unique_ptr<HostSum> sum_;
    Mutex mu_;
    bool under_way_ TENSORBOW_GUARDED_BY(mu_) = false;
    bool failed_ TENSORBOW_GUARDED_BY(mu_) = false;
  };

  // The place of a slice: its elements at `begin`, the variable's number at `note`.
  struct Place {
    Chunk* chunk = nullptr;
    int64_t begin = 0;
    int64_t note = 0;
  };
  struct Layout {
    std::vector<std::unique_ptr<Chunk>> chunks;
    std::vector<std::vector<Place>> places;  // by given variable, and slice
  };

  // Neither is owned.
  HostChunks(Hosts* hosts, CentralModel* central) : hosts_(hosts), central_(central) {}

  // Returns the layout of these variables of the model, the same every time. All hosts
  // call it in the same order, between iterations. Not thread-safe.
  Layout& LayoutOf(const std::vector<int>& variables);

  // The place at which a slice was sent last. Sent() is called between iterations only.
  void Sent(int variable, const std::vector<Place>& places);
  const Place& LastSent(int variable, int slice) const {
    return sent_[variable][slice];
  }
  // Waits for all sums of its slices. Returns whether they succeeded; true if none was
  // sent.
  bool HasArrived(int variable);

 private:
  Hosts* const hosts_;
  CentralModel* const central_;
  std::map<std::vector<int>, Layout> layouts_;
  std::vector<std::vector<Place>> sent_;  // by variable of the model, and slice
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_CHUNKS_H_
