// Sums of gradients over the hosts of a cluster, made while back-propagation goes on.
// The gradients of a task are sent in their order: as soon as a learner's host has all
// its learners' values of one, they are added up (Add) and travel with their
// neighbours, in chunks (Send). Before the first update all sums are awaited.
//
//   Add(0, …), Send(0, …), Add(1, …), …; Await(); Mean(0, …), Mean(1, …), …
//
// Every host sends every gradient once an iteration: one that has no task, or whose
// task has failed, sends zeros for the rest.
//
// Add() and Mean() may be called concurrently for different parts and by different
// learners; everything else by one at a time.
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

// How gradients are divided into chunks; the same on all hosts. No chunk has more than
// HostGradients::kChunkElements elements.
struct Chunking {
  int gradients = 0;      // the most in a chunk; 0: no other limit
  bool searched = false;  // whether a ChunkSearch finds that number
};

class HostGradients {
 public:
  // The most elements of a chunk. Several that are under way together use the network
  // better than one, and the first travel while later gradients are computed.
  static constexpr int64_t kChunkElements = 1 << 20;
  // Where the number of gradients in a chunk is limited, so many of the last ones of a
  // task are chunks of their own: no computation is left that could hide them.
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

  // Divides the gradients into chunks, unless that has been done since chunk() changed.
  // Called before anything else. All hosts do it in the same order.
  void Open() TENSORBOW_EXCLUDES(mu_);
  // Whether sums are of this host only, until it is said otherwise. Between iterations.
  void set_alone(bool alone) { alone_ = alone; }
  // The most gradients in a chunk now; 0: no limit.
  int chunk() const { return chunk_.load(std::memory_order_relaxed); }

  // What is sent of gradient k ← Σ_j share_j · values_j, j in order, in one of so many
  // parts of it. REQUIRES: the gradients before have been sent.
  void Add(int k, const std::vector<Values>& learners, int part, int num_parts);
  // All parts have been added, of learners whose shares add up to `count`.
  void Send(int k, double count);
  // Zeros for all gradients that have not been sent in this iteration.
  void SendRest();
  // Waits for all sums; the iteration has sent all there is. False if the hosts have
  // failed (Hosts::error()).
  bool Await();

  // mean ← gradient k's sum over all hosts by their count, stored as its type.
  // REQUIRES: Await() has returned true since the gradient was sent.
  void Mean(int k, void* mean) const;

 private:
  struct Chunk {
    bool wide;          // of doubles, else of floats
    int64_t size = 0;   // elements of gradients; one more counts the learners
    int gradients = 0;  // that begin in it
    std::unique_ptr<HostSum> sum;
    int64_t filled = 0;
  };
  // Elements [begin, begin + size) of a gradient lie at `at` in the chunk.
  struct Piece {
    Chunk* chunk;
    int64_t at;
    int64_t begin;
    int64_t size;
  };

  void Place(int k, std::vector<Chunk*>* open);
  // After the last sum of an iteration. False if the hosts have failed.
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

  std::unique_ptr<HostSum> lapse_;  // of all hosts, while there is a search
  int64_t iterations_ = 0;          // since the search began
  int64_t interval_began_ = 0;      // nanoseconds
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_GRADIENTS_H_
