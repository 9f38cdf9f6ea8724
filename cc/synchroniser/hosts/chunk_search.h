// The search for the number of gradients in a chunk, while training: CGDP's Algorithm 1
// (Le et al., ICPE 2018). Tries sizes from 1 on, each for an interval of iterations:
// one by one at first, later in steps. Ends some steps beyond the fastest so far, or
// with all gradients in one chunk.
#ifndef TENSORBOW_CC_SYNCHRONISER_HOSTS_CHUNK_SEARCH_H_
#define TENSORBOW_CC_SYNCHRONISER_HOSTS_CHUNK_SEARCH_H_

#include <limits>

namespace tensorbow {

class ChunkSearch {
 public:
  struct Settings {
    int interval = 10;  // iterations with one size
    int step = 10;
    int range = 5;  // steps
  };

  // `most`: the number of gradients.
  ChunkSearch(const Settings& settings, int most) : settings_(settings), most_(most) {}

  int interval() const { return settings_.interval; }
  int chunk() const { return chunk_; }  // the size to be used now
  bool done() const { return done_; }

  // Records the time of the last interval, in any unit. REQUIRES: !done().
  void Took(double lapse);

 private:
  const Settings settings_;
  const int most_;
  int chunk_ = 1;
  int best_ = 1;
  double best_time_ = std::numeric_limits<double>::infinity();
  bool done_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_CHUNK_SEARCH_H_
