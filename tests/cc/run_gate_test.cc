#include "cc/training/run_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tensorbow {
namespace {

constexpr int kRounds = 200;

// Expects that central runs bypass the holder only after its MayBlock().
void ExpectBypassOnlyAfterMayBlock(RunGate* gate, bool immediate) {
  for (int i = 0; i < kRounds; ++i) {
    gate->Enter();
    std::atomic<bool> ready{false}, was_ready{false}, entered{true};
    std::thread central([&] {
      entered = gate->EnterCentral(immediate);
      was_ready = ready.load();
      if (entered) gate->Leave();
    });
    std::this_thread::yield();
    ready = true;
    gate->MayBlock();
    central.join();
    EXPECT_FALSE(entered) << "the holder has not left";
    EXPECT_TRUE(was_ready);
    gate->Leave();
  }
}

TEST(RunGateTest, ImmediateRunsBypassOnlyHoldersThatMayBlock) {
  RunGate gate;
  ExpectBypassOnlyAfterMayBlock(&gate, /*immediate=*/true);
}

TEST(RunGateTest, OtherRunsBypassAfterSomePatience) {
  RunGate gate;
  EXPECT_FALSE(gate.Enter());
  gate.MayBlock();
  EXPECT_FALSE(gate.EnterCentral(/*immediate=*/false));
  gate.Leave();
  EXPECT_TRUE(gate.Enter()) << "the holder has blocked a central run";
  gate.Leave();
  // Central runs no longer wait.
  ExpectBypassOnlyAfterMayBlock(&gate, /*immediate=*/false);
}

TEST(RunGateTest, CentralRunsEnterToo) {
  RunGate gate;
  EXPECT_TRUE(gate.EnterCentral(/*immediate=*/true));
  std::thread learning([&] {
    gate.Enter();
    gate.Leave();
  });
  gate.Leave();
  learning.join();
}

}  // namespace
}  // namespace tensorbow
