// SMA on GPUs against SMA on the CPU, bit for bit, on a CUDA that executes what is
// enqueued as late and as disorderly as streams and events allow (fake_cuda.h).
#include "cc/synchroniser/gpu/gpu_sma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "cc/reducer/host_reducer.h"
#include "cc/support/aligned_buffer.h"
#include "cc/synchroniser/sma.h"
#include "tests/cc/fake_cuda.h"

namespace tensorbow {
namespace {

constexpr std::chrono::microseconds kNoSpin(0);

struct Variable {
  ElementType type;
  int64_t size;
  bool corrects_itself;
};

struct Settings {
  std::vector<int> ordinals;  // of the learners' GPUs
  double alpha = 0.25;
  double momentum = 0.5;
  int64_t period = 1;
  double ema_decay = 0;
  std::vector<Variable> variables = {
      {ElementType::kFloat32, 2 * SmaBlock::kElements + 5, true},
      {ElementType::kFloat64, 130, true},
      {ElementType::kFloat16, 4097, false},
      {ElementType::kFloat32, 3, false},
      {ElementType::kBfloat16, 64, false},
      {ElementType::kFloat32, 0, true}};

  int num_learners() const { return static_cast<int>(ordinals.size()); }
};

// Learners with replicas of the variables, one after another on one thread. A subclass
// says how updates are made.
class Learners {
 public:
  explicit Learners(const Settings& settings)
      : settings_(settings),
        model_(settings.ema_decay),
        scheduler_(settings.num_learners()),
        replicas_(settings.num_learners()) {}
  virtual ~Learners() = default;

  // Call in the subclass's constructor.
  void Open(std::unique_ptr<Synchroniser> synchroniser) {
    synchroniser_ = std::move(synchroniser);
    std::mt19937 random(7);
    std::vector<int> variables;
    for (const Variable& variable : settings_.variables) {
      const AlignedBuffer initial(variable.size * 8 + 8);
      WithStorageType(variable.type, [&](auto* storage) {
        using S = std::remove_pointer_t<decltype(storage)>;
        for (int64_t i = 0; i < variable.size; ++i) {
          initial.as<S>()[i] = S(static_cast<float>(random() % 1000) / 1000 - 0.5f);
        }
        for (auto& replica : replicas_) {
          // Some replicas are not aligned to anything but their elements.
          const int64_t offset = &replica == &replicas_[0] ? 0 : 1;
          buffers_.emplace_back((variable.size + 1) * sizeof(S));
          replica.push_back(buffers_.back().as<S>() + offset);
          std::memcpy(replica.back(), initial.data(), variable.size * sizeof(S));
        }
      });
      variables.push_back(model_.Add(variable.type, variable.size));
      model_.Assign(variables.back(), initial.data());
    }
    set_ = std::make_unique<TrainedSet>(settings_.num_learners(), variables,
                                        settings_.momentum);
    for (size_t m = 0; m < variables.size(); ++m) {
      if (settings_.variables[m].corrects_itself) set_->set_corrects_itself(m);
      for (int j = 0; j < settings_.num_learners(); ++j) {
        set_->set_weights(j, m, replicas_[j][m]);
      }
    }
  }

  // A run of so many tasks; in iteration `last` the learners from `first_absent` on
  // find no data, or learner `first_failing` aborts.
  int64_t Run(int64_t tasks, int first_absent = -1, int first_failing = -1) {
    scheduler_.Begin(tasks, SchedulingPolicy::kRoundRobin);
    synchroniser_->BeginRun(set_.get(), &scheduler_);
    const int64_t iterations = scheduler_.num_iterations();
    for (int64_t iteration = 0; iteration < iterations; ++iteration, ++time_) {
      const bool last = iteration + 1 == iterations;
      for (int j = 0; j < scheduler_.participants(iteration); ++j) {
        if (last && first_failing >= 0 && j >= first_failing) {
          if (j == first_failing) synchroniser_->Abort(j);
          continue;
        }
        if (!synchroniser_->BeforeTask(j)) continue;
        if (last && first_absent >= 0 && j >= first_absent) {
          synchroniser_->SitOut(j);
          continue;
        }
        Task(j);
        synchroniser_->AfterTask(j);
      }
    }
    return synchroniser_->EndRun();
  }

  // The learner's task: updates variable m, or leaves it out now and then.
  virtual void Task(int learner) {
    for (size_t m = 0; m < settings_.variables.size(); ++m) {
      if ((time_ + learner + m) % 5 != 4) Train(learner, m);
    }
  }

  void Restart() { synchroniser_->Restart(*set_); }

  // What all this leaves: replicas, z, z before it, the average.
  std::vector<std::vector<char>> Outcome() {
    EXPECT_EQ(synchroniser_->Collect(), "");
    Settle();
    std::vector<std::vector<char>> outcome;
    const auto add = [&](const void* data, int64_t size_bytes) {
      const char* const bytes = static_cast<const char*>(data);
      outcome.emplace_back(bytes, bytes + size_bytes);
    };
    for (size_t m = 0; m < settings_.variables.size(); ++m) {
      CentralModel::Variable& v = model_.variable(m);
      const int64_t z_bytes = v.size() * AccumulatorSizeBytes(v.type());
      for (const auto& replica : replicas_) {
        add(replica[m], v.size() * ElementSizeBytes(v.type()));
      }
      add(v.current<char>(), z_bytes);
      add(v.other<char>(), z_bytes);
      if (model_.averages()) add(v.average<char>(), z_bytes);
    }
    return outcome;
  }

  CentralModel& model() { return model_; }
  Synchroniser& synchroniser() { return *synchroniser_; }
  TrainedSet& set() { return *set_; }

 protected:
  virtual void Train(int learner, int member) = 0;
  virtual void Settle() {}

  // The update of element i.
  float Update(int learner, int64_t i) const {
    return 0.001f * static_cast<float>((i * 7 + learner * 5 + time_ * 3) % 23 - 11);
  }
  // w ← w + u without a correction.
  void Add(int learner, int member) {
    const Variable& variable = settings_.variables[member];
    WithStorageType(variable.type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      S* const w = static_cast<S*>(replicas_[learner][member]);
      for (int64_t i = 0; i < variable.size; ++i) {
        w[i] = S(static_cast<float>(w[i]) + Update(learner, i));
      }
    });
  }
  // w ← w + u − α (w − z) of elements [begin, end).
  template <typename T>
  void AddAndCorrect(int learner, int member, const T* z, int64_t begin, int64_t end) {
    T* const w = static_cast<T*>(replicas_[learner][member]);
    const T alpha = static_cast<T>(settings_.alpha);
    for (int64_t i = begin; i < end; ++i) {
      const T before = w[i];
      const T after = before + Update(learner, i);
      w[i] = z == nullptr ? after : after - alpha * (before - z[i]);
    }
  }

  const Settings settings_;
  CentralModel model_;
  TaskScheduler scheduler_;
  std::vector<AlignedBuffer> buffers_;
  std::vector<std::vector<void*>> replicas_;  // [learner][member]
  std::unique_ptr<TrainedSet> set_;
  std::unique_ptr<Synchroniser> synchroniser_;
  int64_t time_ = 0;
};

class CpuLearners : public Learners {
 public:
  explicit CpuLearners(const Settings& settings) : Learners(settings) {
    Open(std::make_unique<Sma>(settings.num_learners(), &model_, kNoSpin,
                               settings.alpha, settings.period));
  }

 protected:
  void Train(int learner, int member) override {
    if (!set_->corrects_itself(member)) return Add(learner, member);
    const CentralModel::Variable& variable = synchroniser_->variable(member);
    WithStorageType(variable.type(), [&](auto* storage) {
      using T = std::remove_pointer_t<decltype(storage)>;
      if constexpr (std::is_same_v<T, Accumulator<T>>) {
        for (int s = 0; s < variable.num_slices(); ++s) {
          if (!synchroniser_->Enter(learner, member, s)) return;
          const CentralModel::Slice slice = variable.slice(s);
          AddAndCorrect(learner, member, synchroniser_->Target<T>(learner, member),
                        slice.begin, slice.end);
        }
        synchroniser_->Updated(learner, member);
      }
    });
  }
};

class GpuLearners : public Learners {
 public:
  explicit GpuLearners(const Settings& settings) : Learners(settings) {
    std::vector<GpuLearner> learners;
    for (const int ordinal : settings.ordinals) {
      learners.push_back({ordinal, fake_cuda::NewStream(ordinal)});
      streams_.push_back(learners.back().compute_stream);
    }
    const std::vector<int> gpus = OrdinalsOf(learners);
    auto reducer = gpus.size() > 1 ? std::make_unique<HostReducer>(gpus)
                                   : std::unique_ptr<HostReducer>();
    Open(std::make_unique<GpuSma>(std::move(learners), &model_, kNoSpin, settings.alpha,
                                  settings.period, std::move(reducer)));
  }
  ~GpuLearners() override { synchroniser_.reset(); }

  void Task(int learner) override {
    // As a forward pass would: reads the weights some time after the task before.
    fake_cuda::Enqueue(streams_[learner], [] {});
    Learners::Task(learner);
  }

 protected:
  void Train(int learner, int member) override {
    const int64_t time = time_;
    const auto later = [=](auto work) {
      fake_cuda::Enqueue(streams_[learner], [=] {
        const int64_t now = std::exchange(time_, time);
        work();
        time_ = now;
      });
    };
    if (!set_->corrects_itself(member)) {
      return later([=] { Add(learner, member); });
    }
    if (!synchroniser_->EnterAll(learner, member)) return;
    const void* const z = synchroniser_->DeviceTarget(learner, member);
    const int64_t size = settings_.variables[member].size;
    WithStorageType(settings_.variables[member].type, [&](auto* storage) {
      using T = std::remove_pointer_t<decltype(storage)>;
      if constexpr (std::is_same_v<T, Accumulator<T>>) {
        later(
            [=] { AddAndCorrect(learner, member, static_cast<const T*>(z), 0, size); });
      }
    });
    synchroniser_->Updated(learner, member);
  }
  void Settle() override { fake_cuda::Drain(); }

  std::vector<void*> streams_;
};

constexpr int kSeeds = 12;

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

std::vector<int> OneGpu(int learners) { return std::vector<int>(learners, 0); }

class GpuSmaTest : public testing::TestWithParam<int> {
 protected:
  Settings settings() const {
    Settings settings;
    settings.ordinals = OneGpu(GetParam());
    settings.alpha = 1.0 / GetParam();
    return settings;
  }
  int learners() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Learners, GpuSmaTest, testing::Values(1, 2, 3, 5));

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
  without.momentum = 0;
  ExpectSame(without, [&](Learners& l) { l.Run(6 * learners()); });
}

TEST_P(GpuSmaTest, LearnersThatSitOutContributeNothing) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(3 * learners() - learners() / 2);
    l.Run(2 * learners() - 1 > 0 ? 2 * learners() - 1 : 1);
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, LearnersThatFindNoDataContributeNothing) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(3 * learners(), /*first_absent=*/learners() > 1 ? learners() - 1 : -1);
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, PeriodSynchronisesEveryThirdIteration) {
  Settings periodic = settings();
  periodic.period = 3;
  ExpectSame(periodic, [&](Learners& l) {
    l.Run(4 * learners());
    l.Run(5 * learners());
  });
}

TEST_P(GpuSmaTest, AverageIsTheHostsBitForBit) {
  Settings averaged = settings();
  averaged.ema_decay = 0.5;  // (1 + t) / (10 + t) passes it
  ExpectSame(averaged, [&](Learners& l) {
    l.Run(5 * learners());
    l.synchroniser().Collect();
    // Read between runs, as an evaluation does.
    std::vector<char> values(8 * l.model().variable(0).size());
    l.model().CopyTo(0, CentralModel::Which::kAverage, values.data());
    l.Run(9 * learners());
  });
}

TEST_P(GpuSmaTest, RestartSetsReplicasToZ) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(3 * learners());
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, RestartBeforeTheFirstRun) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, AbortedIterationLeavesNoTrace) {
  ExpectSame(settings(), [&](Learners& l) {
    const int failing = learners() - 1;
    EXPECT_EQ(l.Run(3 * learners(), -1, failing), 2);
    l.Restart();
    l.Run(2 * learners());
  });
}

TEST_P(GpuSmaTest, HostLeadsWhereItHasBeenWritten) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(2 * learners());
    l.synchroniser().Collect();
    l.Run(learners());
    // Written after something newer is on the GPUs, without a Collect() before.
    const std::vector<float> values(l.model().variable(0).size(), 0.25f);
    l.model().Assign(0, values.data());
    l.Run(3 * learners());
  });
}

TEST_P(GpuSmaTest, VariablesAddedLater) {
  ExpectSame(settings(), [&](Learners& l) {
    l.Run(2 * learners());
    l.model().Add(ElementType::kFloat32, 10);
    l.Run(2 * learners());
  });
}

TEST(GpuSmaEndOfDataTest, NobodyFindsData) {
  // Where every update corrects itself, nothing is prepared for an iteration that is
  // none.
  Settings settings;
  settings.ordinals = OneGpu(3);
  settings.variables = {{ElementType::kFloat32, 5000, true},
                        {ElementType::kFloat64, 10, true}};
  ExpectSame(settings, [&](Learners& l) {
    EXPECT_EQ(l.Run(9, /*first_absent=*/0), 2);
    EXPECT_EQ(l.Run(6), 2);
  });
  // Elsewhere it is, and undone.
  settings.variables = {{ElementType::kFloat32, 5000, false}};
  ExpectSame(settings, [&](Learners& l) {
    EXPECT_EQ(l.Run(9, /*first_absent=*/0), 2);
    EXPECT_EQ(l.Run(6), 2);
  });
}

TEST(GpuSmaReplayTest, CapturedTasksDoWhatTheyDidWhenCaptured) {
  class Captured : public GpuLearners {
   public:
    explicit Captured(const Settings& settings)
        : GpuLearners(settings), graphs_(settings.num_learners()) {}
    void Task(int learner) override {
      time_ = 0;  // a graph's update is always the same
      if (graphs_[learner] == nullptr) {
        fake_cuda::BeginCapture(streams_[learner]);
        TrainAll(learner);
        graphs_[learner] = fake_cuda::EndCapture(streams_[learner]);
      } else {
        ASSERT_TRUE(synchroniser_->EnterReplay(learner));
      }
      graphs_[learner]();
    }
    void TrainAll(int learner) {
      for (int m = 0; m < set_->size(); ++m) Train(learner, m);
    }

   private:
    std::vector<std::function<void()>> graphs_;
  };
  class Plain : public CpuLearners {
   public:
    using CpuLearners::CpuLearners;
    void Task(int learner) override {
      time_ = 0;
      for (int m = 0; m < set_->size(); ++m) Train(learner, m);
    }
  };
  Settings settings;
  settings.ordinals = OneGpu(3);
  Plain cpu(settings);
  cpu.Run(21);
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    Captured gpu(settings);
    gpu.Run(12);
    gpu.Run(9);
    EXPECT_TRUE(gpu.Outcome() == cpu.Outcome()) << seed;
  }
}

TEST(GpuSmaThreadsTest, OutcomeDoesNotDependOnWhoIsFast) {
  // A thread for each learner. Tasks have no state of their own here: the update is
  // always that of time 0.
  class Threads : public GpuLearners {
   public:
    using GpuLearners::GpuLearners;
    void RunThreads(int64_t tasks) {
      scheduler_.Begin(tasks, SchedulingPolicy::kRoundRobin);
      synchroniser_->BeginRun(set_.get(), &scheduler_);
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
      const int64_t size = settings_.variables[m].size;
      fake_cuda::Enqueue(streams_[j], [=] { AddAndCorrect(j, m, z, 0, size); });
      synchroniser_->Updated(j, m);
    }
  };
  Settings settings;
  settings.ordinals = OneGpu(4);
  settings.variables = {{ElementType::kFloat32, 5000, true},
                        {ElementType::kFloat32, 70, true}};
  class Plain : public CpuLearners {
   public:
    using CpuLearners::CpuLearners;
    void Task(int learner) override {
      time_ = 0;
      for (int m = 0; m < set_->size(); ++m) Train(learner, m);
    }
  };
  Plain cpu(settings);
  for (int run = 0; run < 5; ++run) cpu.Run(14);
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    Threads gpu(settings);
    for (int run = 0; run < 5; ++run) gpu.RunThreads(14);
    EXPECT_TRUE(gpu.Outcome() == cpu.Outcome()) << seed;
  }
}

// ------------------------------------------------------------------- several GPUs

// The GPUs' sums are added in another order than learners on one device: exact numbers
// (few bits, powers of two) make no difference.
TEST(SeveralGpusTest, SameAsOneWhereSumsAreExact) {
  for (const std::vector<int>& ordinals :
       {std::vector<int>{0, 1}, std::vector<int>{2, 0, 2, 1}}) {
    Settings settings;
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

TEST(HostReducerTest, SumsInTheOrderOfTheGpus) {
  // 2^24 + 1 − 2^24: 0 in this order, 1 in another.
  const float a = 16777216, b = 1, c = -16777216;
  const float* values[] = {&a, &b, &c};
  float sum = 0;
  SumInOrder(values, 3, 1, &sum);
  EXPECT_EQ(sum, 0);
}

TEST(HostReducerTest, GivesEveryGpuTheSumAgainAndAgain) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    HostReducer reducer({0, 1, 2});
    std::vector<void*> streams;
    for (int g = 0; g < 3; ++g) streams.push_back(fake_cuda::NewStream(g));
    std::vector<std::vector<float>> values(3, std::vector<float>(100));
    for (int g = 0; g < 3; ++g) {
      for (int i = 0; i < 100; ++i) values[g][i] = static_cast<float>(i + g);
    }
    const std::vector<void*> buffers = {values[0].data(), values[1].data(),
                                        values[2].data()};
    for (int round = 0; round < 4; ++round) {
      ASSERT_EQ(reducer.Sum(ElementType::kFloat32, 100, buffers, streams), "");
    }
    fake_cuda::Drain();
    for (int g = 0; g < 3; ++g) {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(values[g][i], 27.0f * (3 * i + 3));
    }
  }
}

// ------------------------------------------------------------------- block layout

TEST(BlockLayoutTest, BlocksCoverEveryElementOnce) {
  const BlockLayout layout({{ElementType::kFloat32, 10000},
                            {ElementType::kFloat64, 4096},
                            {ElementType::kFloat32, 0},
                            {ElementType::kFloat32, 1}});
  std::vector<std::vector<int>> seen = {
      std::vector<int>(10000), std::vector<int>(4096), {}, {0}};
  for (const SmaBlock& block : layout.blocks()) {
    EXPECT_LE(block.size, SmaBlock::kElements);
    for (int i = 0; i < block.size; ++i) ++seen[block.member][block.begin + i];
  }
  for (const auto& member : seen) {
    for (int times : member) EXPECT_EQ(times, 1);
  }
}

TEST(BlockLayoutTest, OneLaunchForEachTypeAndValue) {
  const BlockLayout layout({{ElementType::kFloat32, 5000},
                            {ElementType::kFloat64, 10},
                            {ElementType::kFloat32, 10},
                            {ElementType::kFloat32, 20}});
  auto launches = layout.Launches([](int) { return 0; });
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].type, ElementType::kFloat32);
  EXPECT_EQ(launches[0].count, 4);  // 2 + 1 + 1 blocks
  EXPECT_EQ(launches[1].type, ElementType::kFloat64);
  EXPECT_EQ(launches[1].first, 4);
  launches = layout.Launches([](int member) { return member == 3 ? 0.5 : 0; });
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].count, 3);
  EXPECT_EQ(launches[1].value, 0.5);
}

TEST(BlockLayoutTest, FlatBufferHoldsFloatsThenDoubles) {
  const BlockLayout layout({{ElementType::kFloat16, 65},
                            {ElementType::kFloat64, 10},
                            {ElementType::kFloat32, 10}});
  EXPECT_EQ(layout.flat(0), 0);
  EXPECT_EQ(layout.flat(2), 128);  // behind 65 elements, on a multiple of 64
  EXPECT_EQ(layout.flat(1), 0);
  ASSERT_EQ(layout.parts().size(), 2u);
  EXPECT_EQ(layout.parts()[0].size, 192);
  EXPECT_EQ(layout.part_begin_bytes(ElementType::kBfloat16), 0);
  EXPECT_EQ(layout.part_begin_bytes(ElementType::kFloat64), 192 * 4);
  EXPECT_EQ(layout.flat_bytes(), 192 * 4 + 64 * 8);
}

}  // namespace
}  // namespace tensorbow
