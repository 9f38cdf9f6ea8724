#include "cc/tuner/layout_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tensorbow {
namespace {

// The samples per second of a layout.
using Speed = std::function<double(const Layout&)>;

Layout LayoutOf(int learners, int cores) { return {learners, cores / learners}; }

// A machine on which a program trains with the layout that the tuner chooses. Time is
// the sum of the runs' durations.
class Machine {
 public:
  Machine(std::unique_ptr<LayoutSearch> search, const Layout& first, Speed speed,
          const LayoutTuner::Settings& settings = LayoutTuner::Settings())
      : tuner(settings, std::move(search), first), speed(std::move(speed)) {}
  Machine(int cores, Speed speed)
      : Machine(SearchOnCores(cores), {1, cores}, std::move(speed)) {}

  // Executes a run of `rows` rows, and changes to the tuner's layout.
  void Run(uint64_t program = kProgram, double slower = 1) {
    const Layout before = tuner.layout();
    const double ran = rows / speed(before) * slower * (1 + noise());
    seconds += ran;
    samples += rows;
    const std::optional<Layout> change = tuner.Ran(program, rows, ran);
    EXPECT_EQ(change.has_value(), tuner.layout() != before);
    if (!change.has_value()) return;
    EXPECT_EQ(*change, tuner.layout());
    ++changes;
    for (int tries = 0; out_of_memory && out_of_memory(tuner.layout()); ++tries) {
      ASSERT_LT(tries, 100);
      const Layout asked = tuner.Failed("out of memory");
      ASSERT_EQ(asked, tuner.layout());
    }
  }
  void RunFor(double duration, uint64_t program = kProgram) {
    for (const double end = seconds + duration; seconds < end;) Run(program);
  }
  void Settle() {
    for (int runs = 0; !tuner.settled() && runs < 100000; ++runs) Run();
    ASSERT_TRUE(tuner.settled());
  }

  // Changes every run's time by a normal deviate, at most by half.
  void AddNoise(int seed, double deviation) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, deviation);
    noise = [random, normal]() mutable {
      return std::clamp(normal(random), -0.5, 0.5);
    };
  }

  std::vector<int> learners_tried() const {
    std::vector<int> tried;
    for (const auto& entry : tuner.log()) tried.push_back(entry.layout.learners);
    return tried;
  }
  // Returns the number of tunings, without confirmations.
  int tunings() const {
    int again = 0;
    for (const auto& entry : tuner.log()) {
      again += entry.note.rfind("again: ", 0) == 0 && entry.note != kToConfirm;
    }
    return 1 + again;
  }
  int confirmations() const {
    int found = 0;
    for (const auto& entry : tuner.log()) found += entry.note == kToConfirm;
    return found;
  }
  static constexpr char kToConfirm[] = "again: to confirm";

  static constexpr uint64_t kProgram = 1;

  LayoutTuner tuner;
  Speed speed;
  std::function<bool(const Layout&)> out_of_memory;
  std::function<double()> noise = [] { return 0.0; };
  int rows = 100;
  double seconds = 0;
  int64_t samples = 0;
  int changes = 0;
};

// Returns speeds that are highest at `peak` learners; `slope` is their slope.
Speed Unimodal(double peak, double slope = 0.2) {
  return [=](const Layout& layout) {
    const double distance = std::log2(layout.learners / peak);
    return 10000 / (1 + slope * distance * distance);
  };
}

// Returns speeds by the number of learners, from 1.
Speed Table(std::vector<double> speeds) {
  return [speeds](const Layout& layout) { return speeds.at(layout.learners - 1); };
}

using Tried = std::vector<int>;

TEST(LayoutTunerTest, OfTwoCoresBothLayoutsAreMeasuredAndTheFasterIsTaken) {
  for (int faster : {1, 2}) {
    Machine machine(2, Table({faster == 1 ? 5000. : 4000., 4500.}));
    machine.Settle();
    EXPECT_EQ(machine.tuner.layout(), LayoutOf(faster, 2));
    EXPECT_EQ(machine.learners_tried(), (Tried{1, 2}));
    const auto& log = machine.tuner.log();
    EXPECT_NEAR(log[0].samples_per_second, faster == 1 ? 5000 : 4000, 1);
    EXPECT_NEAR(log[1].samples_per_second, 4500, 1);
    EXPECT_NEAR(log[1].spread, 0, 1e-9);
    for (const auto& entry : log) {
      EXPECT_EQ(entry.chosen, entry.layout == machine.tuner.layout());
      EXPECT_EQ(entry.note, "");
    }
  }
}

TEST(LayoutTunerTest, ClimbsTheDivisorsThenMeasuresTheNeighboursOfTheBest) {
  Machine machine(16, Unimodal(5));
  machine.Settle();
  // 4 is the best divisor and 8 within 10 % of it, 16 not; 5 is better than 4 and 6.
  EXPECT_EQ(machine.learners_tried(), (Tried{1, 2, 4, 8, 16, 5, 6}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{5, 3}));

  Machine below(16, Unimodal(7, 2));
  below.Settle();
  EXPECT_EQ(below.learners_tried(), (Tried{1, 2, 4, 8, 16, 9, 7, 6}));
  EXPECT_EQ(below.tuner.layout(), (Layout{7, 2}));
}

TEST(LayoutTunerTest, ClimbingEndsAfterAClearDecline) {
  Machine machine(16, Unimodal(2));
  machine.Settle();
  EXPECT_EQ(machine.learners_tried(), (Tried{1, 2, 4, 3}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 8}));
}

TEST(LayoutTunerTest, ASmallDeclineDoesNotEndTheClimb) {
  Machine machine(16, [](const Layout& layout) {
    return layout.learners == 2 ? 9300. : 10000. + 500 * (layout.learners - 1);
  });
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{16, 1}));
}

TEST(LayoutTunerTest, FewDivisorsAreAllMeasured) {
  Machine machine(8, [](const Layout& layout) {
    return layout.learners == 2 ? 500. : 1000. * layout.learners;
  });
  machine.Settle();
  EXPECT_EQ(machine.learners_tried(), (Tried{1, 2, 4, 8}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{8, 1}));
}

TEST(LayoutTunerTest, AnEndHasNoNeighboursMeasured) {
  Machine rising(16, [](const Layout& layout) { return 1000. * layout.learners; });
  rising.Settle();
  EXPECT_EQ(rising.learners_tried(), (Tried{1, 2, 4, 8, 16}));
  EXPECT_EQ(rising.tuner.layout(), (Layout{16, 1}));

  Machine falling(16, [](const Layout& layout) { return 9000. / layout.learners; });
  falling.Settle();
  EXPECT_EQ(falling.learners_tried(), (Tried{1, 2}));
  EXPECT_EQ(falling.tuner.layout(), (Layout{1, 16}));
}

TEST(LayoutTunerTest, WithinTheThresholdFewerLearnersAreTaken) {
  Machine tie(2, Table({10000, 10150}));
  tie.Settle();
  EXPECT_EQ(tie.tuner.layout(), (Layout{1, 2}));
  Machine in_use(SearchOnCores(2), {2, 1}, Table({10000, 10150}));
  in_use.Settle();
  EXPECT_EQ(in_use.learners_tried(), (Tried{2, 1}));
  EXPECT_EQ(in_use.tuner.layout(), (Layout{1, 2}));
  Machine better(2, Table({10000, 10300}));
  better.Settle();
  EXPECT_EQ(better.tuner.layout(), (Layout{2, 1}));
}

TEST(LayoutTunerTest, OnAPlateauTheSearchIsShort) {
  Machine flat(64, [](const Layout&) { return 10000.; });
  flat.Settle();
  EXPECT_EQ(flat.tuner.layout(), (Layout{1, 64}));
  EXPECT_LE(flat.learners_tried().size(), 9u) << "7 divisors and 2 neighbours";

  // Noise makes records among equal layouts, but few.
  double tried = 0;
  for (int seed = 0; seed < 50; ++seed) {
    Machine noisy(64, [](const Layout&) { return 10000.; });
    noisy.AddNoise(seed, 0.05);
    noisy.Settle();
    tried += noisy.learners_tried().size();
    EXPECT_LE(noisy.changes, 60);
  }
  EXPECT_LE(tried / 50, 12);
}

TEST(LayoutTunerTest, ALayoutInUseIsMeasuredFirstAndKeptIfBest) {
  const Layout odd = {3, 4};  // of 16 cores; 3 learners would get 5 threads
  Machine machine(SearchOnCores(16), odd,
                  [&](const Layout& layout) { return layout == odd ? 10000. : 5000.; });
  EXPECT_EQ(machine.tuner.layout(), odd);
  machine.Settle();
  ASSERT_GE(machine.learners_tried().size(), 2u);
  EXPECT_EQ(machine.learners_tried()[0], 3);
  EXPECT_EQ(machine.learners_tried()[1], 1);
  EXPECT_EQ(machine.tuner.layout(), odd);
}

TEST(LayoutTunerTest, AWindowHasBothItsSecondsAndItsRuns) {
  LayoutTuner::Settings settings;
  settings.window_seconds = 0.5;
  settings.window_runs = 10;
  settings.windows = 3;
  const auto runs_until_a_change = [&](double seconds) {
    LayoutTuner tuner(settings, SearchOnCores(2), {1, 2});
    int runs = 1;
    while (!tuner.Ran(1, 100, seconds).has_value() && runs < 10000) ++runs;
    return runs;
  };
  // One window is dropped, three are measured.
  EXPECT_EQ(runs_until_a_change(1), 4 * 10);
  EXPECT_EQ(runs_until_a_change(1. / 128), 4 * 64);
}

TEST(LayoutTunerTest, RunsWithoutSamplesOrTimeDoNotCount) {
  LayoutTuner tuner({}, SearchOnCores(2), {1, 2});
  for (int i = 0; i < 1000 && tuner.log().empty(); ++i) {
    EXPECT_FALSE(tuner.Ran(1, 0, 1).has_value());
    EXPECT_FALSE(tuner.Ran(1, 100, 0).has_value());
    EXPECT_FALSE(tuner.Ran(1, 100, -1).has_value());
    EXPECT_FALSE(tuner.Ran(1, 100, std::nan("")).has_value());
    tuner.Ran(1, 100, 0.1);
  }
  ASSERT_EQ(tuner.log().size(), 1u);
  EXPECT_NEAR(tuner.log()[0].samples_per_second, 1000, 1e-6);
}

TEST(LayoutTunerTest, TheFirstWindowAfterAChangeDoesNotCount) {
  Machine machine(16, Unimodal(5));
  Layout last = {0, 0};
  int since = 0;
  for (int runs = 0; runs < 100000 && !machine.tuner.settled(); ++runs) {
    since = machine.tuner.layout() == last ? since + 1 : 0;
    last = machine.tuner.layout();
    // Ten runs at 30 times their time fill a window, whatever the layout. One such
    // window does not change the median of three that count; two would.
    machine.Run(Machine::kProgram, since < 20 ? 30 : 1);
  }
  EXPECT_EQ(machine.tuner.layout(), (Layout{5, 3}));
  for (const auto& entry : machine.tuner.log()) {
    EXPECT_NEAR(entry.samples_per_second, machine.speed(entry.layout), 1);
  }
  // The last change, when it settled, is followed by a slow window, too.
  for (int window = 0; window < 4; ++window) {
    for (int run = 0; run < 10; ++run) machine.Run(Machine::kProgram, window ? 1 : 30);
  }
  EXPECT_TRUE(machine.tuner.settled());
}

TEST(LayoutTunerTest, APauseInOneWindowDoesNotCount) {
  Machine machine(2, Table({10000, 9000}));
  machine.RunFor(0.8);                   // in the first window that counts
  machine.Run(Machine::kProgram, 1000);  // 10 s
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
  EXPECT_NEAR(machine.tuner.log()[0].samples_per_second, 10000, 1);
  EXPECT_GT(machine.tuner.log()[0].spread, 0.5);
}

TEST(LayoutTunerTest, AHopelessLayoutIsGivenUp) {
  Machine machine(2, Table({10000, 5000}));
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
  ASSERT_EQ(machine.tuner.log().size(), 2u);
  EXPECT_NEAR(machine.tuner.log()[1].samples_per_second, 5000, 1);
  EXPECT_LT(machine.seconds, 2.0 + 0.7);  // four windows of 0.5 s, and thirty runs
}

// Every run's time has 10 % noise, and windows have their minimum of runs. With only
// the medians of three windows, a few more of the seeds would miss.
TEST(LayoutTunerTest, UnderNoiseItSettlesWithinThreePercentOfTheBest) {
  struct Case {
    int cores;
    Speed speed;
  };
  const std::vector<Case> cases = {
      {2, Table({10000, 9400})}, {2, Table({9400, 10000})}, {16, Unimodal(1)},
      {16, Unimodal(4, 0.1)},    {16, Unimodal(5, 0.1)},    {16, Unimodal(8, 0.1)},
      {16, Unimodal(16)},        {16, Unimodal(4, 0.03)},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [cores, speed] = cases[i];
    double best = 0;
    for (int m = 1; m <= cores; ++m) best = std::max(best, speed(LayoutOf(m, cores)));
    int close = 0;
    for (int seed = 0; seed < 100; ++seed) {
      Machine machine(cores, speed);
      machine.rows = 500;  // 50 ms
      machine.AddNoise(seed, 0.1);
      machine.Settle();
      close += speed(machine.tuner.layout()) >= 0.97 * best;
    }
    EXPECT_GE(close, 95) << "case " << i;
  }
}

// Noise of other processes, which lasts as long as a window, and a curve that falls a
// little before it rises: a climb that ends there would lose 45 %.
TEST(LayoutTunerTest, NoiseDoesNotEndTheClimb) {
  int climbed = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Machine machine(16, [](const Layout& layout) {
      return layout.learners == 1 ? 10000. : 8500. + 600 * layout.learners;
    });
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, 0.1);
    double until = 0, now = 0;
    machine.noise = [&] {
      if (machine.seconds >= until) {
        now = std::clamp(normal(random), -0.5, 0.5);
        until = machine.seconds + 0.5;
      }
      return now;
    };
    machine.Settle();
    climbed += machine.tuner.layout().learners == 16;
  }
  EXPECT_GE(climbed, 95);
}

TEST(LayoutTunerTest, OnlyWhatIsInDoubtIsMeasuredAgainAndNotForEver) {
  for (int seed = 0; seed < 20; ++seed) {
    Machine clear(2, Table({10000, 5000}));
    clear.rows = 500;
    clear.AddNoise(seed, 0.1);
    clear.Settle();
    EXPECT_EQ(clear.changes, 2);
    // Four windows of 10 runs each: of 50 ms, and of 100 ms.
    EXPECT_LE(clear.seconds, 4 * 0.6 + 4 * 1.1);

    Machine doubtful(2, Table({10000, 10000}));
    doubtful.rows = 500;
    doubtful.AddNoise(seed, 0.3);
    doubtful.Settle();
    // Each is measured four times at most, by three windows and one that is dropped.
    EXPECT_LE(doubtful.seconds, 2 * 4 * 4 * 0.6);
  }
}

TEST(LayoutTunerTest, WhatTuningCostsIsBounded) {
  for (const Speed& speed : {Unimodal(1), Unimodal(5), Unimodal(16), Unimodal(64)}) {
    Machine machine(64, speed);
    double best = 0;
    for (int m = 1; m <= 64; ++m) best = std::max(best, speed(LayoutOf(m, 64)));
    machine.Settle();
    const size_t layouts = machine.learners_tried().size();
    EXPECT_LE(layouts, 12u);
    // A layout costs four windows of 0.5 s, and the rest of a run each.
    EXPECT_LE(machine.seconds, layouts * 4 * 0.6);
    const double lost = best * machine.seconds - machine.samples;
    EXPECT_LE(lost, 10 * best) << "samples, of " << best << " per second";
    EXPECT_GE(lost, 0);
  }
}

TEST(LayoutTunerTest, ALateChangeOfRegimeIsTunedAgain) {
  Machine machine(2, Table({8000, 10000}));
  machine.Settle();
  machine.RunFor(30);
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
  EXPECT_EQ(machine.tunings(), 1);

  machine.speed = Table({8000, 6000});
  machine.RunFor(10);
  EXPECT_TRUE(machine.tuner.settled());
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
  EXPECT_EQ(machine.tunings(), 2);
  ASSERT_EQ(machine.learners_tried(), (Tried{1, 2, 2, 1}));
  EXPECT_EQ(machine.tuner.log()[2].note, "again: 1e+04 samples/s have become 6000");

  machine.speed = Table({12000, 16000});  // also changes the best layout
  machine.RunFor(20);
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
}

// Another program takes time while two learners are measured. The throughput of the
// settled layout, one learner, does not show that.
TEST(LayoutTunerTest, WhatHasBeenFoundIsConfirmed) {
  Machine machine(2, Table({8000, 4000}));
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
  machine.speed = Table({8000, 10000});
  // Tuning took 8 windows of 0.5 s; it starts again after ten times as many.
  machine.RunFor(38);
  EXPECT_EQ(machine.confirmations(), 0);
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
  machine.RunFor(8);
  EXPECT_EQ(machine.confirmations(), 1);
  EXPECT_TRUE(machine.tuner.settled());
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
  EXPECT_EQ(machine.learners_tried(), (Tried{1, 2, 1, 2}));
}

TEST(LayoutTunerTest, ConfirmingBecomesRarerAndCostsLittle) {
  for (int cores : {2, 64}) {
    Machine machine(cores, [&](const Layout& layout) {
      return layout.learners == cores ? 10000. : 5000.;
    });
    machine.Settle();
    const double tuned = machine.seconds;
    const double lost_before = 10000 * machine.seconds - machine.samples;
    machine.RunFor(1000 * tuned);
    EXPECT_GE(machine.confirmations(), 5);
    EXPECT_LE(machine.confirmations(), 7);  // after 10, 20, 40, … times as long
    EXPECT_EQ(machine.tunings(), 1);
    const double lost = 10000 * machine.seconds - machine.samples - lost_before;
    EXPECT_LE(lost, 0.01 * machine.samples) << "samples";
    EXPECT_EQ(machine.tuner.layout(), LayoutOf(cores, cores));
  }
}

TEST(LayoutTunerTest, ALayoutWithoutOthersIsNotConfirmed) {
  Machine machine(1, Table({8000}));
  machine.Settle();
  machine.RunFor(1000);
  EXPECT_EQ(machine.learners_tried(), (Tried{1}));
  EXPECT_TRUE(machine.tuner.settled());
}

TEST(LayoutTunerTest, ASmallOrAShortChangeIsNotTunedAgain) {
  Machine machine(2, Table({8000, 10000}));
  machine.Settle();
  for (double small : {8000, 12000}) {
    machine.speed = Table({9000, small});
    machine.RunFor(100);
  }
  for (int i = 0; i < 20; ++i) {
    machine.speed = Table({8000, 5000});
    machine.RunFor(1);  // two windows
    machine.speed = Table({8000, 10000});
    machine.RunFor(2);
  }
  EXPECT_EQ(machine.tunings(), 1);
  EXPECT_TRUE(machine.tuner.settled());
}

TEST(LayoutTunerTest, AMachineThatKeepsChangingIsTunedEverMoreRarely) {
  Machine machine(2, Table({8000, 10000}));
  const auto change_for = [&](double duration) {
    const double end = machine.seconds + duration;
    for (bool slow = true; machine.seconds < end; slow = !slow) {
      machine.speed = slow ? Table({4000, 5000}) : Table({8000, 10000});
      machine.RunFor(15);
    }
  };
  machine.Settle();
  change_for(2000);
  const int tunings = machine.tunings();
  EXPECT_GE(tunings, 3);
  EXPECT_LE(tunings, 7);  // until the patience, 3 · 2^k windows of 0.5 s, exceeds 15 s
  change_for(10000);
  EXPECT_EQ(machine.tunings(), tunings);
}

TEST(LayoutTunerTest, AfterACalmTimeAChangeIsNoticedSoonAgain) {
  Machine machine(2, Table({8000, 10000}));
  machine.Settle();
  for (int i = 0; i < 4; ++i) {  // the patience becomes 48 windows
    machine.speed = i % 2 ? Table({8000, 10000}) : Table({4000, 5000});
    machine.RunFor(30);
  }
  ASSERT_EQ(machine.tunings(), 5);
  machine.RunFor(6000);
  machine.speed = Table({8000, 6000});
  machine.RunFor(8);  // 3 windows to notice, 8 to tune
  EXPECT_EQ(machine.tunings(), 6);
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
}

TEST(LayoutTunerTest, AnotherProgramIsTunedFor) {
  Machine machine(2, Table({10000, 5000}));
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{1, 2}));
  machine.speed = Table({10000, 20000});  // the same throughput with the layout in use
  machine.RunFor(15, /*program=*/2);
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
  EXPECT_EQ(machine.tunings(), 2);
  ASSERT_EQ(machine.learners_tried(), (Tried{1, 2, 1, 2}));
  EXPECT_EQ(machine.tuner.log()[2].note, "again: another program trains");
}

TEST(LayoutTunerTest, AnotherProgramWhileTuningBeginsAgain) {
  Machine machine(16, Table(std::vector<double>(16, 10000)));
  machine.RunFor(5);
  ASSERT_FALSE(machine.tuner.settled());
  machine.speed = Unimodal(16);
  for (int runs = 0; runs < 10000 && !machine.tuner.settled(); ++runs) machine.Run(2);
  EXPECT_EQ(machine.tuner.layout(), (Layout{16, 1}));
  EXPECT_EQ(machine.tunings(), 2);
}

// A GAN: as many runs of one program as of the other, which is slower and prefers the
// other layout. Windows differ in their runs, the comparison does not.
TEST(LayoutTunerTest, ProgramsThatAlternateAreTunedOnceForTheFirst) {
  Machine machine(2, Table({10000, 11000}));
  LayoutTuner& tuner = machine.tuner;
  std::mt19937 random(1);
  for (int runs = 0; runs < 200000; ++runs) {
    const bool other = runs > 0 && random() % 2;
    const double slower = tuner.layout().learners == 2 ? 1.8 : 1.2;
    machine.Run(other ? 2 : 1, other ? slower : 1);
  }
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(machine.tunings(), 1);
  EXPECT_EQ(tuner.layout(), (Layout{2, 1}));
  for (const auto& entry : tuner.log()) {
    EXPECT_NEAR(entry.samples_per_second, machine.speed(entry.layout), 1);
  }
}

TEST(LayoutTunerTest, LastBatchesOfAnEpochDoNotCount) {
  Machine machine(2, Table({10000, 10500}));
  const auto run = [&](int runs) {
    for (int i = 0; i < runs; ++i) {
      const bool last = i % 7 == 6;
      machine.Run(last ? 2 : 1, last ? 0.1 * machine.tuner.layout().learners : 1);
    }
  };
  run(3000);
  EXPECT_TRUE(machine.tuner.settled());
  ASSERT_EQ(machine.learners_tried(), (Tried{1, 2}));
  EXPECT_NEAR(machine.tuner.log()[0].samples_per_second, 10000, 1);
  EXPECT_NEAR(machine.tuner.log()[1].samples_per_second, 10500, 1);
  run(20000);
  EXPECT_EQ(machine.tunings(), 1);
}

TEST(LayoutTunerTest, LongRunsBetweenShorterOnesAreWaitedFor) {
  Machine machine(2, Table({8000, 10000}));
  for (int steps = 0; steps < 200; ++steps) {
    machine.Run(1, 25);  // as long as the five others
    for (int i = 0; i < 5; ++i) machine.Run(2, 5);
  }
  EXPECT_TRUE(machine.tuner.settled());
  EXPECT_EQ(machine.tunings(), 1);
}

TEST(LayoutTunerTest, ProgramsThatTakeShortTurnsOfLongRunsAreTunedOnce) {
  Machine machine(2, Table({8000, 10000}));
  for (int runs = 0; runs < 1000; ++runs) machine.Run(1 + runs / 6 % 2, 100);
  EXPECT_TRUE(machine.tuner.settled());
  EXPECT_EQ(machine.tunings(), 1);
}

TEST(LayoutTunerTest, WhatTakesTheTimeIsTunedForThoughItRunsRarely) {
  // The first program has as many runs as the other, a twentieth as long.
  Machine machine(2, Table({10000, 10000}));
  for (int runs = 0; runs < 4000; ++runs) {
    const bool fast = machine.tuner.layout().learners == 2;
    machine.Run(1, 0.05);
    machine.Run(2, fast ? 0.8 : 1);
  }
  ASSERT_EQ(machine.learners_tried(), (Tried{1, 2})) << "for the second program";
  EXPECT_EQ(machine.tuner.log()[0].note, "again: another program trains");
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
  EXPECT_NEAR(machine.tuner.log().back().samples_per_second, 12500, 1);
}

TEST(LayoutTunerTest, ProgramsThatTakeLongTurnsAreNotTunedForEver) {
  Machine machine(2, Table({8000, 10000}));
  int tunings = 0;
  for (int turn = 0; turn < 400; ++turn) {
    machine.RunFor(20, 1 + turn % 2);
    if (turn == 100) tunings = machine.tunings();
  }
  EXPECT_GE(tunings, 2);
  EXPECT_LE(tunings, 6);
  EXPECT_EQ(machine.tunings(), tunings);
}

TEST(LayoutTunerTest, RunsThatAreAllDifferentAreMeasuredTogether) {
  Machine machine(2, Table({8000, 10000}));
  std::mt19937 random(1);
  for (int runs = 0; runs < 4000; ++runs) machine.Run(random());
  EXPECT_TRUE(machine.tuner.settled());
  ASSERT_EQ(machine.learners_tried(), (Tried{1, 2}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
  EXPECT_NEAR(machine.tuner.log()[1].samples_per_second, 10000, 1);
  const int tunings = machine.tunings();  // once for "another program"
  for (int runs = 0; runs < 5000; ++runs) machine.Run(random());
  EXPECT_EQ(machine.tunings(), tunings);
}

TEST(LayoutTunerTest, ALayoutThatFailsIsSkippedAndToldAndNotTriedAgain) {
  Machine machine(16, [](const Layout& layout) { return 1000. * layout.learners; });
  machine.out_of_memory = [](const Layout& layout) { return layout.learners > 6; };
  machine.Settle();
  // 8 fails, so 16 is not tried; above the best, 4, are 5, 6, and 7, which fails.
  ASSERT_EQ(machine.learners_tried(), (Tried{1, 2, 4, 8, 5, 6, 7}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{6, 2}));
  for (int failed : {3, 6}) {
    const auto& entry = machine.tuner.log()[failed];
    EXPECT_EQ(entry.note, "skipped: out of memory");
    EXPECT_EQ(entry.samples_per_second, 0);
    EXPECT_FALSE(entry.chosen);
  }

  const size_t before = machine.tuner.log().size();
  machine.speed = [](const Layout& layout) { return 500. * layout.learners; };
  machine.RunFor(60);
  EXPECT_TRUE(machine.tuner.settled());
  EXPECT_EQ(machine.tunings(), 2);
  const std::vector<int> tried = machine.learners_tried();
  EXPECT_EQ(*std::max_element(tried.begin() + before, tried.end()), 6);
}

TEST(LayoutTunerTest, ASettledLayoutThatFailsGivesWayToTheBestOfTheOthers) {
  Machine machine(2, Table({8000, 10000}));
  machine.Settle();
  EXPECT_EQ(machine.tuner.Failed("out of memory"), (Layout{1, 2}));
  EXPECT_TRUE(machine.tuner.settled());
  const auto& log = machine.tuner.log();
  ASSERT_EQ(log.size(), 3u);
  EXPECT_TRUE(log[0].chosen);
  EXPECT_FALSE(log[1].chosen);
  EXPECT_EQ(log[2].layout, (Layout{2, 1}));
  EXPECT_EQ(log[2].note, "skipped: out of memory");
}

TEST(LayoutTunerTest, AfterASettledLayoutFailedTheSearchGoesOn) {
  Machine machine(16, Unimodal(8, 2));
  machine.Settle();
  ASSERT_EQ(machine.tuner.layout(), (Layout{8, 2}));
  EXPECT_EQ(machine.tuner.Failed("out of memory"), (Layout{6, 2}));
  EXPECT_FALSE(machine.tuner.settled());
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{7, 2}));
}

TEST(LayoutTunerTest, WhereNothingCanBeHadTheFirstLayoutIsKept) {
  Machine machine(SearchOnCores(4), {2, 1}, [](const Layout&) { return 10000.; });
  machine.out_of_memory = [](const Layout& layout) { return layout.learners == 1; };
  machine.Settle();
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
  machine.RunFor(100);
  EXPECT_TRUE(machine.tuner.settled());
  EXPECT_EQ(machine.tuner.log().size(), 2u);
}

Machine Device(int most_learners, Speed speed) {
  return Machine(SearchOnDevice(most_learners, 1), {1, 1}, std::move(speed));
}

TEST(DeviceSearchTest, AddsLearnersAsLongAsEachRaisesTheThroughputByATenth) {
  // 1000 → 1500 → 1700 (13 %) → 1800 (6 %): the search ends; 4 is the best seen.
  Machine machine = Device(8, Table({1000, 1500, 1700, 1800, 9000, 1, 1, 1}));
  machine.rows = 10;
  machine.Settle();
  EXPECT_EQ(machine.learners_tried(), (Tried{1, 2, 3, 4}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{4, 1}));
}

TEST(DeviceSearchTest, RemovesTheLearnerThatLoweredTheThroughput) {
  Machine machine = Device(8, Table({1000, 1500, 1400, 1, 1, 1, 1, 1}));
  machine.rows = 10;
  machine.Settle();
  EXPECT_EQ(machine.learners_tried(), (Tried{1, 2, 3}));
  EXPECT_EQ(machine.tuner.layout(), (Layout{2, 1}));
}

TEST(DeviceSearchTest, EndsAtTheMostLearnersAndAtTheFirstThatFails) {
  const auto rising = [](const Layout& layout) { return 1000. * layout.learners; };
  Machine bounded = Device(3, rising);
  bounded.Settle();
  EXPECT_EQ(bounded.learners_tried(), (Tried{1, 2, 3}));
  EXPECT_EQ(bounded.tuner.layout(), (Layout{3, 1}));

  Machine failing = Device(8, rising);
  failing.out_of_memory = [](const Layout& layout) { return layout.learners > 4; };
  failing.Settle();
  EXPECT_EQ(failing.learners_tried(), (Tried{1, 2, 3, 4, 5}));
  EXPECT_EQ(failing.tuner.layout(), (Layout{4, 1}));
}

}  // namespace
}  // namespace tensorbow
