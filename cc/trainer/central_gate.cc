#include "cc/trainer/central_gate.h"

#include "absl/time/time.h"

namespace tensorbow {

namespace {

// How long a central run waits for a holder that may itself be waiting.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

}  // namespace

bool Turns::Take() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(+[](bool* taken) { return !*taken; }, &taken_));
  taken_ = true;
  waits_ = false;
  return beside_;
}

void Turns::MayWait() {
  absl::MutexLock lock(&mu_);
  waits_ = true;
}

bool Turns::TakeCentral(bool at_once) {
  absl::MutexLock lock(&mu_);
  while (taken_) {
    if (at_once && waits_) return false;
    // Evaluated with mu_ held, by absl::Mutex, which an annotation of a lambda does not
    // tell clang.
    auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !taken_; };
    auto ended_or_waits = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !taken_ || waits_;
    };
    if (!waits_) {
      mu_.Await(absl::Condition(&ended_or_waits));
    } else if (beside_ || !mu_.AwaitWithTimeout(absl::Condition(&ended), kPatience)) {
      beside_ = true;
      return false;
    }
  }
  taken_ = true;
  waits_ = false;
  return true;
}

void Turns::End() {
  absl::MutexLock lock(&mu_);
  taken_ = false;
}

}  // namespace tensorbow
