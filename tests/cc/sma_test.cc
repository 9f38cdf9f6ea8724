// SMA's arithmetic, against numbers worked out by hand and against a plain model of
// the formulas in double precision.
#include "cc/synchroniser/sma.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/support/float16.h"

namespace tensorbow {
namespace {

constexpr std::chrono::microseconds kNoSpin(0);

// L learners, one variable, driven from one thread: the "optimiser" adds a given
// update. Nobody waits, since tasks of an iteration are executed one after the other.
template <typename T>
class Rig {
 public:
  Rig(ElementType type, int learners, std::vector<T> initial, double alpha,
      double momentum, int64_t period = 1)
      : sma_(learners, &model_, kNoSpin, alpha, period),
        scheduler_(learners),
        replicas_(learners, initial) {
    const int v = model_.Add(type, initial.size());
    model_.Assign(v, initial.data());
    set_ = std::make_unique<TrainedSet>(learners, std::vector<int>{v}, momentum);
    for (int j = 0; j < learners; ++j) set_->set_weights(j, 0, replicas_[j].data());
  }

  // One iteration; updates[j] is added to every element of replica j; NaN sits out.
  void Iterate(const std::vector<double>& updates) {
    int participants = 0;
    for (double u : updates) participants += !std::isnan(u);
    scheduler_.Begin(participants, SchedulingPolicy::kRoundRobin);
    sma_.BeginRun(set_.get(), &scheduler_);
    for (size_t j = 0; j < updates.size(); ++j) {
      if (std::isnan(updates[j])) continue;
      EXPECT_TRUE(sma_.BeforeTask(j));
      for (T& w : replicas_[j]) w = T(double(float(w)) + updates[j]);
      EXPECT_TRUE(sma_.AfterTask(j));
    }
    EXPECT_EQ(sma_.EndRun(), 1);
  }

  double w(int j) const { return double(float(replicas_[j][0])); }
  double z() {
    std::vector<T> values(replicas_[0].size());
    model_.CopyTo(0, CentralModel::Which::kCurrent, values.data());
    return double(float(values[0]));
  }
  Sma& sma() { return sma_; }
  TrainedSet& set() { return *set_; }
  CentralModel& model() { return model_; }

 private:
  CentralModel model_;
  Sma sma_;
  TaskScheduler scheduler_;
  std::unique_ptr<TrainedSet> set_;
  std::vector<std::vector<T>> replicas_;
};

constexpr double kSitsOut = std::numeric_limits<double>::quiet_NaN();

TEST(SmaTest, ThreeIterationsByHand) {
  // L = 2, α = 1/2, μ = 1/2, w = z = 0.
  Rig<float> rig(ElementType::kFloat32, 2, {0.0f}, 0.5, 0.5);
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

TEST(SmaTest, LearnerThatSitsOutContributesNothingAndIsNotCorrected) {
  Rig<float> rig(ElementType::kFloat32, 2, {0.0f}, 0.5, 0.0);
  rig.Iterate({4, 8});         // w = (4, 8), z = 0
  rig.Iterate({0, kSitsOut});  // c_0 = 2: w = (2, 8), z = 2
  EXPECT_EQ(rig.w(0), 2);
  EXPECT_EQ(rig.w(1), 8);
  EXPECT_EQ(rig.z(), 2);
  rig.Iterate({0, 0});  // c = (0, 3) with the new z: w = (2, 5), z = 5
  EXPECT_EQ(rig.w(1), 5);
  EXPECT_EQ(rig.z(), 5);
}

TEST(SmaTest, PeriodCorrectsEveryOtherIteration) {
  Rig<float> rig(ElementType::kFloat32, 2, {0.0f}, 0.5, 0.0, /*period=*/2);
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

TEST(SmaTest, RestartSetsReplicasToZAndForgetsMomentum) {
  Rig<float> rig(ElementType::kFloat32, 2, {0.0f}, 0.5, 0.9);
  rig.Iterate({1, 3});
  rig.Iterate({1, 1});
  const double z = rig.z();
  rig.sma().Restart(rig.set());
  EXPECT_EQ(rig.w(0), z);
  EXPECT_EQ(rig.w(1), z);
  rig.Iterate({0, 0});
  EXPECT_EQ(rig.z(), z);  // no correction, no momentum
}

// Against the formulas in double, for sizes that do and do not fill slices and blocks.
template <typename T>
void AgainstTheFormulas(ElementType type, double tolerance) {
  for (const int64_t size : {int64_t{1}, int64_t{1023}, int64_t{40000}}) {
    for (const int learners : {2, 3, 5}) {
      std::vector<T> initial;
      for (int64_t i = 0; i < size; ++i)
        initial.push_back(T(float(i % 97) / 97 - 0.5f));
      const double alpha = 0.25, momentum = 0.5;
      Rig<T> rig(type, learners, initial, alpha, momentum);
      double z = double(float(initial[0])), z_prev = z;
      std::vector<double> w(learners, z);
      for (int iteration = 0; iteration < 10; ++iteration) {
        std::vector<double> updates;
        double sum = 0;
        for (int j = 0; j < learners; ++j) {
          updates.push_back(0.01 * ((iteration * 7 + j * 3) % 11 - 5));
          const double c = alpha * (w[j] - z);
          w[j] += updates[j] - c;
          sum += c;
        }
        const double next = z + sum + momentum * (z - z_prev);
        z_prev = z;
        z = next;
        rig.Iterate(updates);
      }
      EXPECT_NEAR(rig.z(), z, tolerance);
      for (int j = 0; j < learners; ++j) EXPECT_NEAR(rig.w(j), w[j], tolerance);
    }
  }
}

TEST(SmaTest, Float32AgainstTheFormulas) {
  AgainstTheFormulas<float>(ElementType::kFloat32, 1e-6);
}
TEST(SmaTest, Float64AgainstTheFormulas) {
  AgainstTheFormulas<double>(ElementType::kFloat64, 1e-6);  // updates pass float
}
TEST(SmaTest, HalfAgainstTheFormulas) {
  AgainstTheFormulas<Half>(ElementType::kFloat16, 5e-3);
}
TEST(SmaTest, Bfloat16AgainstTheFormulas) {
  AgainstTheFormulas<Bfloat16>(ElementType::kBfloat16, 4e-2);
}

}  // namespace
}  // namespace tensorbow
