#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cc/trainer/central_gate.h"

namespace tensorbow {
namespace {

constexpr int kRounds = 200;

// Checks that data is ready for a run beside the holder when the holder says that it
// may wait.
void ExpectBesideOnlyAfterMayWait(Turns* turns, bool at_once) {
  for (int i = 0; i < kRounds; ++i) {
    turns->Take();
    std::atomic<bool> ready{false}, was_ready{false}, took_turn{true};
    std::thread central([&] {
      took_turn = turns->TakeCentral(at_once);
      was_ready = ready.load();
      if (took_turn) turns->End();
    });
    std::this_thread::yield();
    ready = true;
    turns->MayWait();
    central.join();
    EXPECT_FALSE(took_turn) << "the turn has not been given back";
    EXPECT_TRUE(was_ready);
    turns->End();
  }
}

TEST(TurnsTest, WhoMayBlockGoesBesideOnlyWhatMayWait) {
  Turns turns;
  ExpectBesideOnlyAfterMayWait(&turns, /*at_once=*/true);
}

TEST(TurnsTest, OthersDoAfterSomePatience) {
  Turns turns;
  EXPECT_FALSE(turns.Take());
  turns.MayWait();
  EXPECT_FALSE(turns.TakeCentral(/*at_once=*/false));
  turns.End();
  EXPECT_TRUE(turns.Take()) << "who waits has kept a central run waiting";
  turns.End();
  // From now on without patience.
  ExpectBesideOnlyAfterMayWait(&turns, /*at_once=*/false);
}

TEST(TurnsTest, CentralRunsHaveTurnsOfTheirOwn) {
  Turns turns;
  EXPECT_TRUE(turns.TakeCentral(/*at_once=*/true));
  std::thread learning([&] {
    turns.Take();
    turns.End();
  });
  turns.End();
  learning.join();
}

}  // namespace
}  // namespace tensorbow
