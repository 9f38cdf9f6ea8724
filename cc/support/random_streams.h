// The positions of a learner's random ops in their streams of random numbers, by the
// name of the op. They can be saved and restored.
//
// A stream is a Philox 4x32-10 generator (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011) as TensorFlow numbers it: a 64-bit key and a 128-bit
// counter that each execution advances by the most numbers it may draw. Thread-safe.
#ifndef TENSORBOW_CC_SUPPORT_RANDOM_STREAMS_H_
#define TENSORBOW_CC_SUPPORT_RANDOM_STREAMS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cc/support/mutex.h"

namespace tensorbow {

class RandomStreams {
 public:
  struct Position {
    uint64_t key = 0;
    std::array<uint64_t, 2> counter = {0, 0};  // the lower half first
  };

  class Stream {
   public:
    // Returns the position and advances it by `samples` of 128 bits.
    Position Reserve(uint64_t samples) {
      MutexLock lock(&mu_);
      const Position position = position_;
      position_.counter[0] += samples;
      if (position_.counter[0] < samples) ++position_.counter[1];
      return position;
    }

   private:
    friend class RandomStreams;
    Mutex mu_;
    Position position_ TENSORBOW_GUARDED_BY(mu_);
    // The position that a stream starts at unless it is set; guarded by the streams'
    // mutex, which an annotation cannot name from here.
    Position start_;
  };

  // Returns the stream of that name. If it is new, or only Set() has made it, its start
  // becomes `start`.
  std::shared_ptr<Stream> FindOrCreate(const std::string& name, const Position& start) {
    MutexLock lock(&mu_);
    std::shared_ptr<Stream>& stream = streams_[name];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>();
      MutexLock stream_lock(&stream->mu_);
      stream->position_ = start;
    }
    stream->start_ = start;
    return stream;
  }

  std::map<std::string, Position> Get() const {
    MutexLock lock(&mu_);
    std::map<std::string, Position> positions;
    for (const auto& [name, stream] : streams_) {
      MutexLock stream_lock(&stream->mu_);
      positions[name] = stream->position_;
    }
    return positions;
  }

  // Restores positions. Streams that `positions` lacks return to their start.
  void Set(const std::map<std::string, Position>& positions) {
    MutexLock lock(&mu_);
    for (const auto& [name, stream] : streams_) {
      MutexLock stream_lock(&stream->mu_);
      stream->position_ = stream->start_;
    }
    for (const auto& [name, position] : positions) {
      std::shared_ptr<Stream>& stream = streams_[name];
      if (stream == nullptr) {
        stream = std::make_shared<Stream>();
        stream->start_ = position;
      }
      MutexLock stream_lock(&stream->mu_);
      stream->position_ = position;
    }
  }

 private:
  mutable Mutex mu_;  // locked before a stream's
  std::map<std::string, std::shared_ptr<Stream>> streams_ TENSORBOW_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_RANDOM_STREAMS_H_
