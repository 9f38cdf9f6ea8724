// The all-reduce of gradients over the hosts of a cluster, during back-propagation. A
// host sends the gradients of a task in their order. Once it has all its learners'
// values of one, it adds them up (Add) and sends them with their neighbours, in chunks
// (Send). Before the first update it awaits all sums.
//
//   Add(0, …), Send(0, …), Add(1, …), …; Await(); Mean(0, …), Mean(1, …), …
//
// Every host sends every gradient once an iteration. A host without a task, or with a
// failed one, sends zeros for the rest.
//
// Different learners may call Add() and Mean() concurrently, for different parts. All
// else is called by one at a time.
#ifndef TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_GRADIENTS_H_
#define TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_GRADIENTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cc/support/element.h"
#include "cc/support/mutex.h"
#include "cc/synchroniser/hosts/chunk_search.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

// The division of gradients into chunks; the same on all hosts. No chunk has more than
// HostGradients::kChunkElements elements.
struct Chunking {
  int gradients = 0;      // the most in a chunk; 0: no other limit
  bool searched = false;  // whether a ChunkSearch finds that number
};

class HostGradients {
 public:
  // The most elements of a chunk. Several chunks under way use the network better than
  // one, and the first overlap with the computation of later gradients.
  static constexpr int64_t kChunkElements = 1 << 20;
  // The number of last gradients of a task that are chunks of their own, if chunks are
  // limited: no computation is left to hide them.
  static constexpr int kAlone = 2;

  struct Gradient {
    ElementType type;
    int64_t size;
  };
  // A learner's values, and their weight.
  struct Values {
    const void* elements;
    double share;
  };

  // `hosts` is not owned.
  HostGradients(Hosts* hosts, std::vector<Gradient> gradients, Chunking chunking = {});

  int size() const { return static_cast<int>(gradients_.size()); }
  const Gradient& gradient(int k) const { return gradients_[k]; }

  // Divides the gradients into chunks if chunk() has changed. Called before anything
  // else, in the same order on all hosts.
  void Open() TENSORBOW_EXCLUDES(mu_);
  // Restricts sums to this host, until it is called again. Between iterations.
  void set_alone(bool alone) { alone_ = alone; }
  // The most gradients in a chunk now; 0: no limit.
  int chunk() const { return chunk_.load(std::memory_order_relaxed); }

  // Sets one of the parts of this host's gradient k to Σ_j share_j · values_j, j in
  // order. REQUIRES: the gradients before have been sent.
  void Add(int k, const std::vector<Values>& learners, int part, int num_parts);
  // Sends gradient k, after all its parts. `count`: the sum of the learners' shares.
  void Send(int k, double count);
  // Sends zeros for all gradients that have not been sent in this iteration.
  void SendRest();
  // Waits for all sums of an iteration. Returns false if the hosts have failed
  // (Hosts::error()). REQUIRES: all gradients have been sent.
  bool Await();

  // Sets `mean` to gradient k's sum over all hosts divided by their count, stored as
  // its type. REQUIRES: Await() has returned true since the gradient was sent.
  void Mean(int k, void* mean) const;

 private:
  struct Chunk {
    bool wide;          // holds doubles, else floats
    int64_t size = 0;   // elements of gradients; one more counts the learners
    int gradients = 0;  // that begin in it
    std::unique_ptr<HostSum> sum;
    int64_t filled = 0;
  };
  // Elements [begin, begin + size) of a gradient, at `at` in the chunk.
  struct Piece {
    Chunk* chunk;
    int64_t at;
    int64_t begin;
    int64_t size;
  };

  void Place(int k, std::vector<Chunk*>* open);
  // Moves the search on, after the last sum of an iteration. Returns false if the hosts
  // have failed.
  bool Search();

  Hosts* const hosts_;
  const std::vector<Gradient> gradients_;
  std::unique_ptr<ChunkSearch> search_;  // or null
  std::atomic<int> chunk_;

  Mutex mu_;  // held while chunks are made
  std::atomic<bool> opened_{false};
  std::vector<std::vector<Piece>> pieces_;  // by gradient
  std::vector<std::unique_ptr<Chunk>> chunks_;
  int sent_ = 0;  // gradients, in this iteration
  bool alone_ = false;

  std::unique_ptr<HostSum> lapse_;  // times of all hosts, during a search
  int64_t iterations_ = 0;          // since the search began
  int64_t interval_began_ = 0;      // nanoseconds
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_GRADIENTS_H_
