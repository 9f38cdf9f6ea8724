// The throughput of learning runs in a short time, a window.
//
// A session executes more than one program: a GAN has two training operations, an epoch
// ends with a smaller batch. Rows of different programs cost differently, and windows
// differ in how many of each they contain. So only the runs of one program, the watched
// one, are measured; layouts are compared by the same work.
//
// A window ends full when the watched program has had enough runs and enough time. It
// ends foreign when four times that time has passed and the watched program had less
// than a quarter of it. The share counts time, not rows: the program that takes the
// time is the one to make faster. If no program recurs (every run has another number of
// rows), all runs are watched together.
//
// Thread-compatible. Nothing is allocated.
#ifndef TENSORBOW_CC_TUNER_RUN_WINDOW_H_
#define TENSORBOW_CC_TUNER_RUN_WINDOW_H_

#include <cstdint>
#include <optional>

namespace tensorbow {

class RunWindow {
 public:
  enum class State { kOpen, kFull, kForeign };

  RunWindow(double least_seconds, int64_t least_runs)
      : least_seconds_(least_seconds), least_runs_(least_runs) {}

  // Starts a window of this program; nullopt watches all programs.
  void Watch(std::optional<uint64_t> program) {
    watched_ = program;
    Begin();
  }
  std::optional<uint64_t> watched() const { return watched_; }

  void Begin() {
    own_ = all_ = Tally();
    votes_ = 0;
  }

  // Adds a run. REQUIRES: samples > 0, seconds > 0.
  State Add(uint64_t program, int64_t samples, double seconds) {
    all_.Add(samples, seconds);
    if (!watched_.has_value() || program == *watched_) own_.Add(samples, seconds);
    Vote(program, seconds);
    if (own_.seconds >= least_seconds_ && own_.runs >= least_runs_) return State::kFull;
    const bool foreign = all_.seconds >= kForeign * least_seconds_ &&
                         all_.runs >= least_runs_ &&
                         all_.seconds > kForeign * own_.seconds;
    return foreign ? State::kForeign : State::kOpen;
  }

  // Returns the throughput of the watched program. REQUIRES: the window is full.
  double samples_per_second() const { return own_.samples / own_.seconds; }

  // Returns a program that had at least a quarter of the window's time: if one had two
  // thirds, that one.
  std::optional<uint64_t> Dominant() const {
    if (votes_ * kForeign < all_.seconds) return std::nullopt;
    return elected_;
  }

 private:
  struct Tally {
    void Add(int64_t new_samples, double new_seconds) {
      ++runs;
      samples += new_samples;
      seconds += new_seconds;
    }
    int64_t runs = 0;
    int64_t samples = 0;
    double seconds = 0;
  };

  static constexpr double kForeign = 4;

  // Votes by the majority algorithm of Boyer and Moore, with seconds for votes: one
  // counter for any number of programs. If a program has the share s of the seconds, at
  // least 2s − 1 of them remain for it; the elected one's remainder is at most its own
  // share.
  void Vote(uint64_t program, double seconds) {
    votes_ += program == elected_ ? seconds : -seconds;
    if (votes_ < 0) {
      elected_ = program;
      votes_ = -votes_;
    }
  }

  const double least_seconds_;
  const int64_t least_runs_;
  std::optional<uint64_t> watched_;
  Tally own_, all_;
  uint64_t elected_ = 0;
  double votes_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TUNER_RUN_WINDOW_H_
