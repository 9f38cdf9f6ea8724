#include "cc/training/run_gate.h"

#include "absl/time/time.h"

namespace tensorbow {

namespace {

// The longest wait of a central run for a holder that may block.
constexpr absl::Duration kPatience = absl::Milliseconds(100);

}  // namespace

bool RunGate::Enter() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(+[](bool* taken) { return !*taken; }, &taken_));
  taken_ = true;
  may_block_ = false;
  return central_bypasses_;
}

void RunGate::MayBlock() {
  absl::MutexLock lock(&mu_);
  may_block_ = true;
}

bool RunGate::EnterCentral(bool immediate) {
  absl::MutexLock lock(&mu_);
  while (taken_) {
    if (immediate && may_block_) return false;
    // Evaluated with mu_ held, by absl::Mutex, which an annotation of a lambda does not
    // tell clang.
    auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !taken_; };
    auto ended_or_blocks = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !taken_ || may_block_;
    };
    if (!may_block_) {
      mu_.Await(absl::Condition(&ended_or_blocks));
    } else if (central_bypasses_ ||
               !mu_.AwaitWithTimeout(absl::Condition(&ended), kPatience)) {
      central_bypasses_ = true;
      return false;
    }
  }
  taken_ = true;
  may_block_ = false;
  return true;
}

void RunGate::Leave() {
  absl::MutexLock lock(&mu_);
  taken_ = false;
}

}  // namespace tensorbow
