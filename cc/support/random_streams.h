// Where a learner's random ops are in their streams of random numbers, by the name of
// the op, so that it can be saved and set.
//
// A stream is a Philox 4x32-10 generator (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011) as TensorFlow numbers it: a 64-bit key and a 128-bit
// counter that is moved on by what each execution may draw. Thread-safe.
#ifndef TENSORBOW_CC_SUPPORT_RANDOM_STREAMS_H_
#define TENSORBOW_CC_SUPPORT_RANDOM_STREAMS_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tensorbow {

class RandomStreams {
 public:
  struct Position {
    uint64_t key = 0;
    std::array<uint64_t, 2> counter = {0, 0};  // the lower half first
  };

  class Stream {
   public:
    // Where it stands; moves it on by `samples` of 128 bits.
    Position Reserve(uint64_t samples) {
      std::lock_guard<std::mutex> lock(mu_);
      const Position position = position_;
      position_.counter[0] += samples;
      if (position_.counter[0] < samples) ++position_.counter[1];
      return position;
    }

   private:
    friend class RandomStreams;
    std::mutex mu_;
    Position position_;  // guarded by mu_
    Position start_;     // where a stream that nobody has set begins
  };

  // The stream of that name. If there is none yet, or Set() has made it, it is known to
  // begin at `start` from now on.
  std::shared_ptr<Stream> FindOrCreate(const std::string& name, const Position& start) {
    std::lock_guard<std::mutex> lock(mu_);
    std::shared_ptr<Stream>& stream = streams_[name];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>();
      stream->position_ = start;
    }
    stream->start_ = start;
    return stream;
  }

  std::map<std::string, Position> Get() const {
    std::lock_guard<std::mutex> lock(mu_);
    std::map<std::string, Position> positions;
    for (const auto& [name, stream] : streams_) {
      std::lock_guard<std::mutex> stream_lock(stream->mu_);
      positions[name] = stream->position_;
    }
    return positions;
  }

  // Streams that `positions` does not know go back to where they began.
  void Set(const std::map<std::string, Position>& positions) {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [name, stream] : streams_) {
      std::lock_guard<std::mutex> stream_lock(stream->mu_);
      stream->position_ = stream->start_;
    }
    for (const auto& [name, position] : positions) {
      std::shared_ptr<Stream>& stream = streams_[name];
      if (stream == nullptr) {
        stream = std::make_shared<Stream>();
        stream->start_ = position;
      }
      std::lock_guard<std::mutex> stream_lock(stream->mu_);
      stream->position_ = position;
    }
  }

 private:
  mutable std::mutex mu_;
  std::map<std::string, std::shared_ptr<Stream>> streams_;  // guarded by mu_
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_RANDOM_STREAMS_H_
