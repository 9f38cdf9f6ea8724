// Values of a central model's slices that are added up over the hosts of a cluster, in
// chunks: the slices of a set of variables are laid out one after the other, those of
// one type together, and each chunk of them is a sum of its own. Beside its slices a
// chunk carries a number for each variable that has some in it, its note.
//
// Thread-safe where not said otherwise; who writes which slice when, and who starts a
// chunk, is up to the caller.
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
  // Elements of a chunk: large enough for the network's bandwidth, small enough that
  // one is on its way while the next is added up.
  static constexpr int64_t kChunkElements = 1 << 20;

  class Chunk {
   public:
    // `wide`: of doubles, else of floats.
    explicit Chunk(bool wide) : wide_(wide) {}

    // This host's values; after Await() the sums. Not to be touched while a sum is
    // under way.
    template <typename A>
    A* values() {
      return sum_->as<A>();
    }
    void SetNote(int64_t at, double note);

    // REQUIRES: no sum is under way.
    void Start();
    // So many more elements hold what is to be sent since the last start: starts the
    // sum when all do. Not thread-safe.
    void Fill(int64_t elements);
    // Waits for the sum that has been started last, if any. Whether it has been made.
    bool Await();

   private:
    friend class HostChunks;

    const bool wide_;
    int64_t size_ = 0;  // elements of slices; notes follow
    int64_t num_notes_ = 0;
    int64_t filled_ = 0;
    std::unique_ptr<HostSum> sum_;
    Mutex mu_;
    bool under_way_ TENSORBOW_GUARDED_BY(mu_) = false;
    bool failed_ TENSORBOW_GUARDED_BY(mu_) = false;
  };

  // Of a slice: its elements lie at `begin`, the variable's number at `note`.
  struct Place {
    Chunk* chunk = nullptr;
    int64_t begin = 0;
    int64_t note = 0;
  };
  struct Layout {
    std::vector<std::unique_ptr<Chunk>> chunks;
    std::vector<std::vector<Place>> places;  // by variable as they are given, and slice
  };

  // Neither is owned.
  HostChunks(Hosts* hosts, CentralModel* central) : hosts_(hosts), central_(central) {}

  // That of these variables of the model, the same every time. All hosts ask for
  // layouts in the same order, between iterations. Not thread-safe.
  Layout& LayoutOf(const std::vector<int>& variables);

  // Where a slice has been sent last. Sent() is called between iterations only.
  void Sent(int variable, const std::vector<Place>& places);
  const Place& LastSent(int variable, int slice) const {
    return sent_[variable][slice];
  }
  // Waits for all sums that its slices are in. Whether they have been made; also where
  // it has not been sent.
  bool HasArrived(int variable);

 private:
  Hosts* const hosts_;
  CentralModel* const central_;
  std::map<std::vector<int>, Layout> layouts_;
  std::vector<std::vector<Place>> sent_;  // by variable of the model, and slice
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_CHUNKS_H_
