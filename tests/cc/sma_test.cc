// SMA's arithmetic, against numbers computed by hand and against a plain model of the
// formulas in double precision.
#include "cc/synchroniser/algorithms/sma.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "cc/scheduler/task_scheduler.h"
#include "cc/support/float16.h"
#include "cc/synchroniser/synchroniser.h"
#include "tests/cc/averaging_model.h"

namespace tensorbow {
namespace {

using Updates = AveragingModel::Updates;

constexpr std::chrono::microseconds kNoSpin(0);
constexpr std::nullopt_t kSitsOut = std::nullopt;

SmaOptions Current(double alpha, int64_t period = 1) {
  return {SmaOptions::Centre::kCurrent, alpha, period, 0};
}
SmaOptions Lagging(double alpha, double momentum, int64_t period = 1) {
  return {SmaOptions::Centre::kLagging, alpha, period, momentum};
}

template <typename T>
T Rounded(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return T(static_cast<float>(value));
  }
}
template <typename T>
double Widened(T value) {
  return static_cast<double>(static_cast<Accumulator<T>>(value));
}

// L learners, one variable, driven from one thread. The "optimiser" adds a given
// number. Nobody waits, since tasks of an iteration are executed one after the other.
template <typename T>
class Rig {
 public:
  Rig(ElementType type, const SmaOptions& options, int learners, std::vector<T> initial,
      double ema_decay = 0)
      : model_(KeptBySma(options.centre), ema_decay),
        synchroniser_(learners, &model_, kNoSpin, NewSma(options, learners, &model_)),
        scheduler_(learners),
        replicas_(learners, initial) {
    model_.Assign(model_.Add(type, initial.size()), initial.data());
    set_ = std::make_unique<TrainedSet>(learners, std::vector<int>{0});
    for (int j = 0; j < learners; ++j) set_->set_weights(j, 0, replicas_[j].data());
  }

  // Executes a run of one iteration; updates[j] is added to every element of replica j.
  void Iterate(const Updates& updates) {
    int tasks = 0;  // the last learners without an update have no task
    for (size_t j = 0; j < updates.size(); ++j) {
      if (updates[j].has_value()) tasks = static_cast<int>(j) + 1;
    }
    scheduler_.Begin(tasks, SchedulingPolicy::kRoundRobin);
    synchroniser_.BeginRun(set_.get(), &scheduler_);
    for (int j = 0; j < tasks; ++j) {
      EXPECT_TRUE(synchroniser_.pace(j).BeforeTask());
      if (!updates[j].has_value()) {
        EXPECT_TRUE(synchroniser_.pace(j).Skip());
        continue;
      }
      for (T& w : replicas_[j]) w = Rounded<T>(Widened(w) + *updates[j]);
      EXPECT_TRUE(synchroniser_.pace(j).AfterTask());
    }
    EXPECT_EQ(synchroniser_.EndRun(), 1);
  }

  void Restart() { synchroniser_.Restart(*set_); }
  void Collect() { EXPECT_EQ(synchroniser_.Collect(0, set_->replicas(0)), ""); }

  const std::vector<T>& replica(int j) const { return replicas_[j]; }
  double w(int j) const { return Widened(replicas_[j][0]); }
  double z() {
    Collect();
    return variable().template z<Accumulator<T>>()[0];
  }
  double average() {
    Collect();
    return variable().template average<Accumulator<T>>()[0];
  }
  CentralModel::Variable& variable() { return model_.variable(0); }
  TrainedSet& set() { return *set_; }

 private:
  CentralModel model_;
  Synchroniser synchroniser_;
  TaskScheduler scheduler_;
  std::unique_ptr<TrainedSet> set_;
  std::vector<std::vector<T>> replicas_;
};

Rig<float> NewRig(const SmaOptions& options, int learners = 2, double ema_decay = 0,
                  float start = 0) {
  return Rig<float>(ElementType::kFloat32, options, learners, {start}, ema_decay);
}

// ----------------------------------------------------------------------- by hand

TEST(CurrentCentreTest, ThreeIterationsByHand) {
  // L = 2, α = 1/2, w = z = 0.
  Rig<float> rig = NewRig(Current(0.5));
  rig.Iterate({1, 3});
  // corrected towards z = 0, which both are: w = (1, 3); their mean is 2
  EXPECT_EQ(rig.w(0), 1);
  EXPECT_EQ(rig.w(1), 3);
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({1, 1});
  // α (w − z) = (−0.5, 0.5): w = (1 + 1 + 0.5, 3 + 1 − 0.5), mean 3
  EXPECT_EQ(rig.w(0), 2.5);
  EXPECT_EQ(rig.w(1), 3.5);
  EXPECT_EQ(rig.z(), 3);
  rig.Iterate({0, 0});
  // α (w − z) = (−0.25, 0.25): w = (2.75, 3.25), mean 3
  EXPECT_EQ(rig.w(0), 2.75);
  EXPECT_EQ(rig.w(1), 3.25);
  EXPECT_EQ(rig.z(), 3);
}

TEST(LaggingCentreTest, ThreeIterationsByHand) {
  // L = 2, α = 1/2, μ = 1/2, w = z = 0.
  Rig<float> rig = NewRig(Lagging(0.5, 0.5));
  rig.Iterate({1, 3});
  // c = 0: w = (1, 3), z = 0
  EXPECT_EQ(rig.w(0), 1);
  EXPECT_EQ(rig.w(1), 3);
  EXPECT_EQ(rig.z(), 0);
  rig.Iterate({1, 1});
  // c = (0.5, 1.5): w = (1 + 1 − 0.5, 3 + 1 − 1.5), z = 0 + 2 + 0.5·0
  EXPECT_EQ(rig.w(0), 1.5);
  EXPECT_EQ(rig.w(1), 2.5);
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({0, 0});
  // c = (−0.25, 0.25): w = (1.75, 2.25), z = 2 + 0 + 0.5·(2 − 0)
  EXPECT_EQ(rig.w(0), 1.75);
  EXPECT_EQ(rig.w(1), 2.25);
  EXPECT_EQ(rig.z(), 3);
}

TEST(CurrentCentreTest, LearnerThatSitsOutDoesNotCountUntilItJoinsAgain) {
  Rig<float> rig = NewRig(Current(0.5));
  rig.Iterate({4, 8});         // w = (4, 8), mean 6
  rig.Iterate({0, kSitsOut});  // w_0 = 4 + 0.5·2, the mean of one
  EXPECT_EQ(rig.w(0), 5);
  EXPECT_EQ(rig.w(1), 8);
  EXPECT_EQ(rig.z(), 5);
  rig.Iterate({0, 2});  // w_1 starts from 5
  EXPECT_EQ(rig.w(0), 5);
  EXPECT_EQ(rig.w(1), 7);
  EXPECT_EQ(rig.z(), 6);
}

TEST(LaggingCentreTest, LearnerThatSitsOutContributesNothingAndJoinsFromZ) {
  Rig<float> rig = NewRig(Lagging(0.5, 0));
  rig.Iterate({4, 8});         // w = (4, 8), z = 0
  rig.Iterate({0, kSitsOut});  // c_0 = 2: w_0 = 2, z = 2
  EXPECT_EQ(rig.w(0), 2);
  EXPECT_EQ(rig.w(1), 8);
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({1, 2});  // w_1 starts from 2, so c = 0: w = (3, 4), z = 2
  EXPECT_EQ(rig.w(0), 3);
  EXPECT_EQ(rig.w(1), 4);
  EXPECT_EQ(rig.z(), 2);
}

TEST(CurrentCentreTest, PeriodCorrectsEveryOtherIteration) {
  Rig<float> rig = NewRig(Current(0.5, /*period=*/2));
  rig.Iterate({1, 3});  // not due
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({1, 1});  // α (w − z) = (−0.5, 0.5)
  EXPECT_EQ(rig.w(0), 2.5);
  EXPECT_EQ(rig.w(1), 3.5);
  rig.Iterate({1, 1});  // not due
  EXPECT_EQ(rig.w(0), 3.5);
  EXPECT_EQ(rig.w(1), 4.5);
  EXPECT_EQ(rig.z(), 4);  // follows anyway
}

TEST(LaggingCentreTest, PeriodCorrectsEveryOtherIteration) {
  Rig<float> rig = NewRig(Lagging(0.5, 0, /*period=*/2));
  rig.Iterate({1, 3});  // not due
  EXPECT_EQ(rig.z(), 0);
  rig.Iterate({1, 1});  // c = α (w before the update − z) = (0.5, 1.5)
  EXPECT_EQ(rig.w(0), 1.5);
  EXPECT_EQ(rig.w(1), 2.5);
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({1, 1});
  EXPECT_EQ(rig.w(0), 2.5);
  EXPECT_EQ(rig.z(), 2);
}

TEST(CurrentCentreTest, RestartSetsReplicasToTheirMean) {
  Rig<float> rig = NewRig(Current(0.25));
  rig.Iterate({1, 3});
  rig.Restart();
  EXPECT_EQ(rig.w(0), 2);
  EXPECT_EQ(rig.w(1), 2);
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({1, 0});  // no correction
  EXPECT_EQ(rig.w(0), 3);
  EXPECT_EQ(rig.z(), 2.5);
}

TEST(LaggingCentreTest, RestartSetsReplicasToZAndForgetsMomentum) {
  Rig<float> rig = NewRig(Lagging(0.5, 0.9));
  rig.Iterate({1, 3});
  rig.Iterate({1, 1});
  const double z = rig.z();
  EXPECT_EQ(z, 2);
  rig.Restart();
  EXPECT_EQ(rig.w(0), z);
  EXPECT_EQ(rig.w(1), z);
  rig.Iterate({0, 0});
  EXPECT_EQ(rig.z(), z);  // no correction, no momentum
}

TEST(CurrentCentreTest, AverageMovesOnceForEveryIterationReadOrNot) {
  Rig<float> read = NewRig(Current(0.5), 2, /*ema_decay=*/0.2, /*start=*/8);
  Rig<float> unread = NewRig(Current(0.5), 2, 0.2, 8);
  EXPECT_EQ(read.average(), 8);
  // z = 10, 11, 11, 12; d = min(0.2, (1 + t) / (10 + t)) = 1/10, 2/11, 0.2, 0.2
  const std::vector<Updates> updates = {{1, 3}, {1, 1}, {2, -2}, {1, 1}};
  const double expected[] = {0.1 * 8 + 0.9 * 10, 2.0 / 11 * 9.8 + 9.0 / 11 * 11,
                             0.2 * (2.0 / 11 * 9.8 + 9) + 0.8 * 11,
                             0.2 * (0.2 * (2.0 / 11 * 9.8 + 9) + 0.8 * 11) + 0.8 * 12};
  for (int i = 0; i < 4; ++i) {
    read.Iterate(updates[i]);
    unread.Iterate(updates[i]);
    EXPECT_FLOAT_EQ(read.average(), expected[i]);
    EXPECT_FLOAT_EQ(read.average(), expected[i]);
  }
  EXPECT_EQ(read.z(), 12);
  EXPECT_EQ(unread.average(), read.average());
}

// In another order the float sum of 1e8, −1e8 and 1 is 0.
TEST(SmaTest, SumsAreTakenInLearnerOrder) {
  Rig<float> current = NewRig(Current(0.25), 3);
  current.Iterate({1e8, -1e8, 1});
  EXPECT_EQ(current.z(), 1.0f / 3);
  Rig<float> lagging = NewRig(Lagging(0.25, 0), 3);
  lagging.Iterate({1e8, -1e8, 1});
  lagging.Iterate({0, 0, 0});
  EXPECT_EQ(lagging.z(), 0.25);
}

// An update op corrects by itself, and no task of the iteration executes it.
TEST(CurrentCentreTest, AverageMovesInAnIterationWithoutUpdatesAndCorrections) {
  for (const bool reads : {false, true}) {
    Rig<float> rig = NewRig(Current(0.5, /*period=*/3), 2, /*ema_decay=*/0.5);
    rig.set().set_corrects_itself(0);
    rig.Iterate({1, 3});  // z = 2; nobody executes the op, so it is not entered
    if (reads) rig.Collect();
    rig.Iterate({0, 0});
    // d = 1/10, 2/11, of z = 2 both times
    EXPECT_FLOAT_EQ(rig.average(), 2.0f / 11 * 1.8f + 9.0f / 11 * 2) << reads;
  }
}

// --------------------------------------------------------------------- one alone

template <typename T>
void OneAlone(ElementType type, int learners, double alpha) {
  std::vector<T> expected;
  for (int i = 0; i < 2000; ++i) expected.push_back(Rounded<T>(0.37 * i - 300));
  Rig<T> rig(type, Current(alpha), learners, expected);
  for (int iteration = 0; iteration < 20; ++iteration) {
    const double update = 0.1 * iteration - 0.7;
    Updates updates(learners);
    updates[0] = update;
    rig.Iterate(updates);
    for (T& w : expected) w = Rounded<T>(Widened(w) + update);  // as it stands
    rig.Collect();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(Widened(rig.replica(0)[i]), Widened(expected[i]));
      ASSERT_EQ(rig.variable().template z<Accumulator<T>>()[i], Widened(expected[i]));
    }
  }
}

TEST(CurrentCentreTest, OneParticipantIsZAndTrainsWithoutCorrection) {
  for (int learners : {1, 2, 3}) {
    OneAlone<float>(ElementType::kFloat32, learners, 1.0 / 3);
    OneAlone<double>(ElementType::kFloat64, learners, 1.0 / 3);
    OneAlone<Half>(ElementType::kFloat16, learners, 1.0 / 3);
    OneAlone<Bfloat16>(ElementType::kBfloat16, learners, 1.0 / 3);
  }
}

// ------------------------------------------------------------------ the formulas

template <typename T>
double FarthestFrom(const std::vector<double>& wanted, const T* got, int64_t size) {
  double farthest = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double difference = std::abs(Widened(got[i]) - wanted[i % wanted.size()]);
    farthest = std::isnan(difference) ? INFINITY : std::max(farthest, difference);
  }
  return farthest;
}

template <typename T>
void AgainstTheFormulas(ElementType type, const SmaOptions& options, int learners,
                        int64_t size, double tolerance) {
  std::vector<double> start;
  for (int i = 0; i < 97; ++i) start.push_back(Widened(Rounded<T>(i / 97.0 - 0.5)));
  std::vector<T> initial;
  for (int64_t i = 0; i < size; ++i) initial.push_back(Rounded<T>(start[i % 97]));
  Rig<T> rig(type, options, learners, initial, /*ema_decay=*/0.25);
  AveragingModel model(options, 0.25, learners, start);
  model.Iterate(Updates(learners, 0.0));
  rig.Iterate(Updates(learners, 0.0));
  for (int iteration = 0; iteration < 12; ++iteration) {
    Updates updates;
    for (int j = 0; j < learners; ++j) {
      // In three of twelve iterations some have no task, the first or the last ones.
      if ((iteration % 4 == 3 && j > iteration / 4) || (iteration == 5 && j == 0)) {
        updates.push_back(kSitsOut);
      } else {
        updates.push_back(0.01 * ((iteration * 7 + j * 3) % 11 - 5));
      }
    }
    rig.Iterate(updates);
    model.Iterate(updates);
    if (iteration == 8) {
      rig.Restart();
      model.Restart();
    }
    if (iteration % 3 == 0) continue;  // is not read
    rig.Collect();
    const CentralModel::Variable& v = rig.variable();
    using A = Accumulator<T>;
    EXPECT_LE(FarthestFrom(model.z(), v.template z<A>(), size), tolerance);
    EXPECT_LE(FarthestFrom(model.average(), v.template average<A>(), size), tolerance);
    for (int j : model.present()) {
      EXPECT_LE(FarthestFrom(model.w(j), rig.replica(j).data(), size), tolerance);
    }
  }
}

template <typename T>
void AgainstTheFormulas(ElementType type, double tolerance) {
  const SmaOptions all[] = {
      Current(0.25),      Current(1),      Current(0.5, /*period=*/2),
      Lagging(0.25, 0.5), Lagging(0.3, 0), Lagging(0.25, 0.5, /*period=*/3)};
  for (const SmaOptions& options : all) {
    for (const int64_t size : {1, 1023, 1025, 40000}) {  // blocks: 1024, slices: 16384
      for (const int learners : {2, 3, 5}) {
        SCOPED_TRACE(
            testing::Message()
            << (options.centre == SmaOptions::Centre::kCurrent ? "current" : "lagging")
            << " alpha=" << options.alpha << " period=" << options.period
            << " size=" << size << " learners=" << learners);
        AgainstTheFormulas<T>(type, options, learners, size, tolerance);
      }
    }
  }
}

TEST(SmaTest, Float32AgainstTheFormulas) {
  AgainstTheFormulas<float>(ElementType::kFloat32, 1e-6);
}
TEST(SmaTest, Float64AgainstTheFormulas) {
  AgainstTheFormulas<double>(ElementType::kFloat64, 1e-14);
}
TEST(SmaTest, HalfAgainstTheFormulas) {
  AgainstTheFormulas<Half>(ElementType::kFloat16, 5e-3);
}
TEST(SmaTest, Bfloat16AgainstTheFormulas) {
  AgainstTheFormulas<Bfloat16>(ElementType::kBfloat16, 4e-2);
}

// ------------------------------------------------------------------ several sets

// Two kinds of run train a variable: participants are kept for each variable.
TEST(SmaTest, LearnerJoinsFromZWhateverRunTrainedTheVariableLast) {
  for (const SmaOptions& options : {Current(0.5), Lagging(0.5, 0)}) {
    CentralModel model(KeptBySma(options.centre));
    Synchroniser synchroniser(2, &model, kNoSpin, NewSma(options, 2, &model));
    TaskScheduler scheduler(2);
    float weights[2][2] = {};  // by learner and variable
    TrainedSet both(
        2, {model.Add(ElementType::kFloat32, 1), model.Add(ElementType::kFloat32, 1)});
    TrainedSet second(2, {1});
    for (int j = 0; j < 2; ++j) {
      for (int v = 0; v < 2; ++v) both.set_weights(j, v, &weights[j][v]);
      second.set_weights(j, 0, &weights[j][1]);
    }
    const auto run = [&](TrainedSet* set, int tasks, float update) {
      scheduler.Begin(tasks, SchedulingPolicy::kRoundRobin);
      synchroniser.BeginRun(set, &scheduler);
      for (int j = 0; j < tasks; ++j) {
        EXPECT_TRUE(synchroniser.pace(j).BeforeTask());
        for (int m = 0; m < set->size(); ++m) {
          *static_cast<float*>(set->weights(j, m)) += update;
        }
        EXPECT_TRUE(synchroniser.pace(j).AfterTask());
      }
      EXPECT_EQ(synchroniser.EndRun(), 1);
    };
    run(&both, 1, 1);
    run(&second, 2, 2);
    EXPECT_EQ(synchroniser.participants(0), std::vector<int>{0});
    EXPECT_EQ(synchroniser.participants(1), (std::vector<int>{0, 1}));
    if (options.centre == SmaOptions::Centre::kCurrent) {
      // Learner 1 started from z = 1, the first run's.
      EXPECT_EQ(weights[1][1], 3);
      EXPECT_EQ(weights[1][0], 0);
      run(&both, 2, 0);
      EXPECT_EQ(weights[1][0], 1);  // from z, which is learner 0's
    } else {
      // z = 0 until a correction is made, of 0.5 · 1, in the second run.
      EXPECT_EQ(weights[0][1], 2.5);
      EXPECT_EQ(weights[1][1], 2);
      run(&both, 2, 0);  // variable 0: learner 0 corrects by 0.5
      EXPECT_EQ(weights[1][0], 0);
      EXPECT_EQ(weights[0][0], 0.5);
    }
  }
}

}  // namespace
}  // namespace tensorbow
