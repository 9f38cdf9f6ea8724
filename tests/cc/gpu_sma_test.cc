// SMA on GPUs against SMA on the CPU, bit for bit. The fake CUDA executes enqueued work
// as late and as disorderly as streams and events allow (fake_cuda.h).
#include "cc/synchroniser/gpu/gpu_sma.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/cc/gpu_learners.h"

namespace tensorbow {
namespace {

class GpuSmaTest : public testing::TestWithParam<std::tuple<Centre, int>> {
 protected:
  Centre centre() const { return std::get<0>(GetParam()); }
  int learners() const { return std::get<1>(GetParam()); }
  Settings settings() const { return OneGpu(centre(), learners()); }
};

INSTANTIATE_TEST_SUITE_P(Learners, GpuSmaTest,
                         testing::Combine(testing::Values(Centre::kCurrent,
                                                          Centre::kLagging),
                                          testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(GpuSmaTest, ManyIterationsInOneRun) {
  ExpectSame(settings(),
             [&](AveragingLearners& l) { EXPECT_EQ(l.Run(9 * learners()), 9); });
}

TEST_P(GpuSmaTest, ManyRuns) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    for (int run = 0; run < 8; ++run) EXPECT_EQ(l.Run(learners()), 1);
  });
}

TEST_P(GpuSmaTest, WithoutMomentum) {
  Settings without = settings();
  without.sma.momentum = 0;
  ExpectSame(without, [&](AveragingLearners& l) { l.Run(6 * learners()); });
}

TEST_P(GpuSmaTest, LearnersThatSitOutContributeNothing) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(3 * learners() - learners() / 2);
    l.Run(2 * learners() - 1);
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersWithoutATaskInManyRunsBeginFromZ) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(2 * learners());
    for (int run = 0; run < 4; ++run) EXPECT_EQ(l.Run(1), 1);
    l.Run(learners() - learners() / 2);
    l.Collect();
    l.Run(3 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersThatFindNoDataContributeNothing) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(3 * learners(), /*first_absent=*/learners() > 1 ? learners() - 1 : -1);
    l.Run(2 * learners());
    l.Run(2 * learners(), /*first_absent=*/learners() > 1 ? 1 : -1);
    l.Run(learners());
  });
}

TEST_P(GpuSmaTest, LearnersThatFindNoDataOnceGoOnInTheRun) {
  for (const int period : {1, 2}) {
    Settings periodic = settings();
    periodic.sma.period = period;
    ExpectSame(periodic, [&](AveragingLearners& l) {
      const int first_absent = learners() > 1 ? 1 : -1;
      l.Run(5 * learners(), first_absent, -1, /*special=*/1);
      l.Run(3 * learners());
    });
  }
}

TEST_P(GpuSmaTest, PeriodSynchronisesEveryThirdIteration) {
  Settings periodic = settings();
  periodic.sma.period = 3;
  ExpectSame(periodic, [&](AveragingLearners& l) {
    l.Run(4 * learners());
    l.Run(5 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersThatSatOutGoOnWithoutASynchronisation) {
  Settings periodic = settings();
  periodic.sma.period = 2;
  ExpectSame(periodic, [&](AveragingLearners& l) {
    const int64_t tasks = 2 * learners() - learners() / 2;
    for (int run = 0; run < 4; ++run) {
      l.Run(tasks);           // the second is synchronised
      l.Run(2 * learners());  // the first is not
    }
  });
}

TEST_P(GpuSmaTest, AverageIsTheHostsBitForBit) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;  // (1 + t) / (10 + t) exceeds it
  ExpectSame(averaged, [&](AveragingLearners& l) {
    l.Run(5 * learners());
    l.Collect();
    // Read between runs, as an evaluation does.
    std::vector<char> values(8 * l.model().variable(0).size());
    l.model().CopyTo(0, CentralModel::Which::kAverage, values.data());
    l.Run(9 * learners());
    l.Collect();
    l.Collect();
    l.Run(2 * learners() - 1);
    l.Run(3 * learners());
  });
}

TEST_P(GpuSmaTest, AverageMovesOnceForEveryIterationWhereOthersAreDiscarded) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;
  ExpectSame(averaged, [&](AveragingLearners& l) {
    l.Run(3 * learners());
    l.Restart();
    l.Run(2 * learners(), -1, /*first_failing=*/learners() - 1);
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, RestartSetsReplicasToZ) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(3 * learners());
    l.Restart();
    l.Run(2 * learners());
    l.Run(2 * learners() - 1);
    l.Restart();
    l.Restart();
    l.Run(learners());
  });
}

TEST_P(GpuSmaTest, RestartBeforeTheFirstRun) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, AbortedIterationLeavesNoTrace) {
  for (int failing = 0; failing < learners(); ++failing) {
    ExpectSame(settings(), [&](AveragingLearners& l) {
      EXPECT_EQ(l.Run(3 * learners(), -1, failing), 2);
      l.Restart();
      l.Run(2 * learners());
    });
  }
}

TEST_P(GpuSmaTest, AbortedIterationAfterAShortOneLeavesNoTrace) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(3 * learners() - learners() / 2);
    EXPECT_EQ(l.Run(learners(), -1, learners() - 1), 0);
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, AbortedIterationThatDoesNotCorrectLeavesNoTrace) {
  Settings periodic = settings();
  periodic.sma.period = 3;
  ExpectSame(periodic, [&](AveragingLearners& l) {
    EXPECT_EQ(l.Run(5 * learners(), -1, learners() - 1), 4);
    l.Restart();
    l.Run(4 * learners());
  });
}

TEST_P(GpuSmaTest, HostLeadsWhereItHasBeenWritten) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(2 * learners());
    l.Collect();
    l.Run(learners());
    // Written after a newer value is on the GPUs, without a Collect() before.
    const std::vector<float> values(l.model().variable(0).size(), 0.25f);
    l.model().Assign(0, values.data());
    l.Run(3 * learners());
  });
}

TEST_P(GpuSmaTest, ReplicasAreWrittenBetweenRunsAfterTheyHaveBeenRead) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    for (int run = 0; run < 3; ++run) {
      l.Run(2 * learners() - learners() / 2);
      l.Write(learners() - 1, run, 0.25f);
      l.Run(2 * learners());
      l.Write(0, run, 0.5f);
      l.Collect();
      l.Write(learners() - 1, run, 0.75f);
      l.Restart();
    }
  });
}

TEST_P(GpuSmaTest, StatesAreResumedWithWhatIsNotTakenIn) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;
  for (const bool reads : {false, true}) {
    ExpectSame(averaged, [&](AveragingLearners& l) {
      l.Run(2 * learners());
      l.Collect();
      for (int v = 0; v < l.model().num_variables(); ++v) {
        l.model().variable(v).Resume(/*iterations=*/7, /*taken_in=*/6);
      }
      if (reads) l.Collect();
      l.Run(2 * learners());
    });
  }
}

TEST_P(GpuSmaTest, VariablesAddedLater) {
  ExpectSame(settings(), [&](AveragingLearners& l) {
    l.Run(2 * learners());
    l.model().Add(ElementType::kFloat32, 10);
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, SetsShareVariables) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;
  ExpectSame(averaged, [&](AveragingLearners& l) {
    const auto some = l.NewSet({1, 0, 4});
    const auto others = l.NewSet({4, 2, 1});
    l.RunOver(some.get(), 2 * learners());
    l.RunOver(others.get(), 2 * learners() - learners() / 2);
    l.RunOver(some.get(), 1);
    l.Run(2 * learners());
    l.RunOver(others.get(), learners());
    l.Restart();
    l.RunOver(some.get(), 2 * learners());
  });
}

}  // namespace
}  // namespace tensorbow
