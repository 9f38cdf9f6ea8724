// SMA on GPUs: replayed tasks, a thread for each learner, several GPUs.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/cc/gpu_learners.h"

namespace tensorbow {
namespace {

class GpuSmaCentreTest : public testing::TestWithParam<Centre> {};
INSTANTIATE_TEST_SUITE_P(Centres, GpuSmaCentreTest,
                         testing::Values(Centre::kCurrent, Centre::kLagging),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(GpuSmaCentreTest, NobodyFindsData) {
  // If every update corrects itself, an iteration without tasks is not prepared.
  Settings settings = OneGpu(GetParam(), 3);
  settings.variables = {{ElementType::kFloat32, 5000, true},
                        {ElementType::kFloat64, 10, true}};
  const auto scenario = [&](AveragingLearners& l) {
    EXPECT_EQ(l.Run(9, /*first_absent=*/0), 2);
    EXPECT_EQ(l.Run(6), 2);
  };
  ExpectSame(settings, scenario);
  // Otherwise it is prepared, and undone.
  settings.variables = {{ElementType::kFloat32, 5000, false}};
  ExpectSame(settings, scenario);
  // Not in an iteration without corrections.
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
        ASSERT_TRUE(synchroniser_->updates(learner).EnterRecorded());
      }
      time_ = 0;
      graphs_[learner]();
    }

   private:
    std::vector<std::function<void()>> graphs_;
  };
  const auto scenario = [](AveragingLearners& l) {
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
            if (!synchroniser_->pace(j).BeforeTask()) return;
            for (int m = 0; m < set_->size(); ++m) {
              if (synchroniser_->updates(j).EnterAll(m)) Enqueue(j, m);
            }
            if (!synchroniser_->pace(j).AfterTask()) return;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      synchroniser_->EndRun();
    }
    void Enqueue(int j, int m) {
      const auto* z =
          static_cast<const float*>(synchroniser_->updates(j).DeviceTarget(m));
      auto* const w = static_cast<float*>(set_->weights(j, m));
      const int64_t size = SettingsOf(m).size;
      fake_cuda::Enqueue(streams_[j], [=] { AddAndCorrect(j, w, z, 0, size); });
      synchroniser_->updates(j).Updated(m);
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

// The sums of GPUs have another order than those of learners on one device. The outcome
// is equal up to rounding, and has the same bits in every order of execution.
TEST_P(GpuSmaCentreTest, SeveralGpusDoWhatOneDoes) {
  for (const std::vector<int>& ordinals :
       {std::vector<int>{0, 1}, std::vector<int>{2, 0, 2, 1}}) {
    Settings settings = OneGpu(GetParam(), static_cast<int>(ordinals.size()));
    settings.ordinals = ordinals;
    settings.variables = {{ElementType::kFloat64, 5000, true},
                          {ElementType::kFloat64, 70, false}};
    settings.ema_decay = 0.5;
    const int learners = settings.num_learners();
    const auto scenario = [&](AveragingLearners& l) {
      l.Run(5 * learners);
      l.Run(2 * learners - 1);
      l.Restart();
      l.Run(2 * learners);
      l.Run(1);
      l.Collect();
      l.Run(2 * learners);
      l.Run(1);
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
