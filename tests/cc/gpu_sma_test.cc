// SMA on GPUs against SMA on the CPU, bit for bit, on a CUDA that executes what is
// enqueued as late and as disorderly as streams and events allow (fake_cuda.h).
#include "cc/synchroniser/gpu/gpu_sma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/cc/gpu_learners.h"

namespace tensorbow {
namespace {

constexpr int kSeeds = 8;

// Does the same to both and compares what is left, for several orders of execution.
void ExpectSame(const Settings& settings,
                const std::function<void(Learners&)>& scenario) {
  CpuLearners cpu(settings);
  scenario(cpu);
  const auto expected = cpu.Outcome();
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    GpuLearners gpu(settings);
    scenario(gpu);
    const auto outcome = gpu.Outcome();
    ASSERT_EQ(gpu.synchroniser().error(), "");
    ASSERT_EQ(outcome.size(), expected.size());
    for (size_t i = 0; i < outcome.size(); ++i) {
      ASSERT_EQ(outcome[i], expected[i]) << "value " << i << ", seed " << seed;
    }
    for (int v = 0; v < cpu.model().num_variables(); ++v) {
      ASSERT_EQ(gpu.model().variable(v).iterations(),
                cpu.model().variable(v).iterations());
    }
  }
}

Settings OneGpu(Centre centre, int learners) {
  Settings settings;
  settings.ordinals.assign(learners, 0);
  settings.sma.centre = centre;
  settings.sma.alpha = 1.0 / learners;
  settings.sma.momentum = centre == Centre::kLagging ? 0.5 : 0;
  return settings;
}

class GpuSmaTest : public testing::TestWithParam<std::tuple<Centre, int>> {
 protected:
  Centre centre() const { return std::get<0>(GetParam()); }
  int learners() const { return std::get<1>(GetParam()); }
  Settings settings() const { return OneGpu(centre(), learners()); }
};

std::string NameOf(Centre centre) {
  return centre == Centre::kCurrent ? "Current" : "Lagging";
}
INSTANTIATE_TEST_SUITE_P(Learners, GpuSmaTest,
                         testing::Combine(testing::Values(Centre::kCurrent,
                                                          Centre::kLagging),
                                          testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param)) +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(GpuSmaTest, ManyIterationsInOneRun) {
  ExpectSame(settings(), [&](Learners& l) { EXPECT_EQ(l.Run(9 * learners()), 9); });
}

TEST_P(GpuSmaTest, ManyRuns) {
  ExpectSame(settings(), [&](Learners& l) {
    for (int run = 0; run < 8; ++run) EXPECT_EQ(l.Run(learners()), 1);
  });
}

TEST_P(GpuSmaTest, WithoutMomentum) {
  Settings without = settings();
  without.sma.momentum = 0;
  ExpectSame(without, [&](Learners& l) { l.Run(6 * learners()); });
}

TEST_P(GpuSmaTest, LearnersThatSitOutContributeNothing) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(3 * learners() - learners() / 2);
    l.Run(2 * learners() - 1);
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersWithoutATaskInManyRunsBeginFromZ) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(2 * learners());
    for (int run = 0; run < 4; ++run) EXPECT_EQ(l.Run(1), 1);
    l.Run(learners() - learners() / 2);
    l.Collect();
    l.Run(3 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersThatFindNoDataContributeNothing) {
  ExpectSame(settings(), [&](Learners& l) {
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
    ExpectSame(periodic, [&](Learners& l) {
      const int first_absent = learners() > 1 ? 1 : -1;
      l.Run(5 * learners(), first_absent, -1, /*special=*/1);
      l.Run(3 * learners());
    });
  }
}

TEST_P(GpuSmaTest, PeriodSynchronisesEveryThirdIteration) {
  Settings periodic = settings();
  periodic.sma.period = 3;
  ExpectSame(periodic, [&](Learners& l) {
    l.Run(4 * learners());
    l.Run(5 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersThatSatOutGoOnWithoutASynchronisation) {
  Settings periodic = settings();
  periodic.sma.period = 2;
  ExpectSame(periodic, [&](Learners& l) {
    const int64_t tasks = 2 * learners() - learners() / 2;
    for (int run = 0; run < 4; ++run) {
      l.Run(tasks);           // the second is synchronised
      l.Run(2 * learners());  // the first is not
    }
  });
}

TEST_P(GpuSmaTest, AverageIsTheHostsBitForBit) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;  // (1 + t) / (10 + t) passes it
  ExpectSame(averaged, [&](Learners& l) {
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
  ExpectSame(averaged, [&](Learners& l) {
    l.Run(3 * learners());
    l.Restart();
    l.Run(2 * learners(), -1, /*first_failing=*/learners() - 1);
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, RestartSetsReplicasToZ) {
  ExpectSame(settings(), [&](Learners& l) {
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
  ExpectSame(settings(), [&](Learners& l) {
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, AbortedIterationLeavesNoTrace) {
  for (int failing = 0; failing < learners(); ++failing) {
    ExpectSame(settings(), [&](Learners& l) {
      EXPECT_EQ(l.Run(3 * learners(), -1, failing), 2);
      l.Restart();
      l.Run(2 * learners());
    });
  }
}

TEST_P(GpuSmaTest, AbortedIterationAfterAShortOneLeavesNoTrace) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(3 * learners() - learners() / 2);
    EXPECT_EQ(l.Run(learners(), -1, learners() - 1), 0);
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, AbortedIterationThatDoesNotCorrectLeavesNoTrace) {
  Settings periodic = settings();
  periodic.sma.period = 3;
  ExpectSame(periodic, [&](Learners& l) {
    EXPECT_EQ(l.Run(5 * learners(), -1, learners() - 1), 4);
    l.Restart();
    l.Run(4 * learners());
  });
}

TEST_P(GpuSmaTest, HostLeadsWhereItHasBeenWritten) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(2 * learners());
    l.Collect();
    l.Run(learners());
    // Written after something newer is on the GPUs, without a Collect() before.
    const std::vector<float> values(l.model().variable(0).size(), 0.25f);
    l.model().Assign(0, values.data());
    l.Run(3 * learners());
  });
}

TEST_P(GpuSmaTest, ReplicasAreWrittenBetweenRunsAfterTheyHaveBeenRead) {
  ExpectSame(settings(), [&](Learners& l) {
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
    ExpectSame(averaged, [&](Learners& l) {
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
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(2 * learners());
    l.model().Add(ElementType::kFloat32, 10);
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, SetsShareVariables) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;
  ExpectSame(averaged, [&](Learners& l) {
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

class GpuSmaCentreTest : public testing::TestWithParam<Centre> {};
INSTANTIATE_TEST_SUITE_P(Centres, GpuSmaCentreTest,
                         testing::Values(Centre::kCurrent, Centre::kLagging),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(GpuSmaCentreTest, NobodyFindsData) {
  // Where every update corrects itself, nothing is prepared for an iteration that is
  // none.
  Settings settings = OneGpu(GetParam(), 3);
  settings.variables = {{ElementType::kFloat32, 5000, true},
                        {ElementType::kFloat64, 10, true}};
  const auto scenario = [&](Learners& l) {
    EXPECT_EQ(l.Run(9, /*first_absent=*/0), 2);
    EXPECT_EQ(l.Run(6), 2);
  };
  ExpectSame(settings, scenario);
  // Elsewhere it is, and undone.
  settings.variables = {{ElementType::kFloat32, 5000, false}};
  ExpectSame(settings, scenario);
  // Not in an iteration that does not correct.
  settings.sma.period = 2;
  ExpectSame(settings, scenario);
}

// Updates every member in every task, always as at time 0.
template <typename Base>
class Steady : public Base {
 public:
  using Base::Base;
  void Task(int learner) override {
    this->time_ = 0;
    for (int m = 0; m < this->set_->size(); ++m) this->Train(learner, m);
  }
};

TEST_P(GpuSmaCentreTest, CapturedTasksDoWhatTheyDidWhenCaptured) {
  class Captured : public Steady<GpuLearners> {
   public:
    explicit Captured(const Settings& settings)
        : Steady(settings), graphs_(settings.num_learners()) {}
    void Task(int learner) override {
      if (graphs_[learner] == nullptr) {
        fake_cuda::BeginCapture(streams_[learner]);
        Steady::Task(learner);
        graphs_[learner] = fake_cuda::EndCapture(streams_[learner]);
      } else {
        ASSERT_TRUE(synchroniser_->EnterReplay(learner));
      }
      time_ = 0;
      graphs_[learner]();
    }

   private:
    std::vector<std::function<void()>> graphs_;
  };
  const auto scenario = [](Learners& l) {
    l.Run(12);
    l.Run(8);
    l.Run(1);
    l.Collect();
    l.Run(9);
    l.Restart();
    l.Run(6);
  };
  const Settings settings = OneGpu(GetParam(), 3);
  Steady<CpuLearners> cpu(settings);
  scenario(cpu);
  const auto expected = cpu.Outcome();
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    Captured gpu(settings);
    scenario(gpu);
    EXPECT_TRUE(gpu.Outcome() == expected) << seed;
  }
}

TEST_P(GpuSmaCentreTest, OutcomeDoesNotDependOnWhoIsFast) {
  // A thread for each learner. Tasks have no state of their own here: the update is
  // always that of time 0.
  class Threads : public GpuLearners {
   public:
    using GpuLearners::GpuLearners;
    void RunThreads(int64_t tasks) {
      scheduler_.Begin(tasks, SchedulingPolicy::kRoundRobin);
      synchroniser_->BeginRun(set_, &scheduler_);
      std::vector<std::thread> threads;
      for (int j = 0; j < settings_.num_learners(); ++j) {
        threads.emplace_back([this, j] {
          while (scheduler_.Next(j).has_value()) {
            if (!synchroniser_->BeforeTask(j)) return;
            for (int m = 0; m < set_->size(); ++m) {
              if (synchroniser_->EnterAll(j, m)) Enqueue(j, m);
            }
            if (!synchroniser_->AfterTask(j)) return;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      synchroniser_->EndRun();
    }
    void Enqueue(int j, int m) {
      const auto* z = static_cast<const float*>(synchroniser_->DeviceTarget(j, m));
      auto* const w = static_cast<float*>(set_->weights(j, m));
      const int64_t size = SettingsOf(m).size;
      fake_cuda::Enqueue(streams_[j], [=] { AddAndCorrect(j, w, z, 0, size); });
      synchroniser_->Updated(j, m);
    }
  };
  Settings settings = OneGpu(GetParam(), 4);
  settings.variables = {{ElementType::kFloat32, 5000, true},
                        {ElementType::kFloat32, 70, true}};
  Steady<CpuLearners> cpu(settings);
  for (int run = 0; run < 5; ++run) cpu.Run(14);
  const auto expected = cpu.Outcome();
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    Threads gpu(settings);
    for (int run = 0; run < 5; ++run) gpu.RunThreads(14);
    EXPECT_TRUE(gpu.Outcome() == expected) << seed;
  }
}

// ------------------------------------------------------------------- several GPUs

// The GPUs' sums are added in another order than learners on one device: the outcome
// is the same to rounding, and the same bits whatever the order of execution.
TEST_P(GpuSmaCentreTest, SeveralGpusDoWhatOneDoes) {
  for (const std::vector<int>& ordinals :
       {std::vector<int>{0, 1}, std::vector<int>{2, 0, 2, 1}}) {
    Settings settings = OneGpu(GetParam(), static_cast<int>(ordinals.size()));
    settings.ordinals = ordinals;
    settings.variables = {{ElementType::kFloat64, 5000, true},
                          {ElementType::kFloat64, 70, false}};
    settings.ema_decay = 0.5;
    const int learners = settings.num_learners();
    const auto scenario = [&](Learners& l) {
      l.Run(5 * learners);
      l.Run(2 * learners - 1);
      l.Restart();
      l.Run(2 * learners);
      l.Run(1);
      l.Collect();
      l.Run(2 * learners);
      EXPECT_EQ(l.Run(3 * learners, -1, /*first_failing=*/1), 2);
      l.Restart();
      l.Run(2 * learners);
    };
    CpuLearners cpu(settings);
    scenario(cpu);
    const auto expected = cpu.Outcome();
    std::vector<std::vector<char>> first;
    for (int seed = 0; seed < kSeeds; ++seed) {
      fake_cuda::Seed(seed);
      GpuLearners gpu(settings);
      scenario(gpu);
      const auto outcome = gpu.Outcome();
      ASSERT_EQ(gpu.synchroniser().error(), "");
      if (seed == 0) first = outcome;
      ASSERT_TRUE(outcome == first) << seed;
      ASSERT_EQ(outcome.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const auto* is = reinterpret_cast<const double*>(outcome[i].data());
        const auto* wanted = reinterpret_cast<const double*>(expected[i].data());
        for (size_t k = 0; k < expected[i].size() / 8; ++k) {
          ASSERT_NEAR(is[k], wanted[k], 1e-13) << "value " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensorbow
