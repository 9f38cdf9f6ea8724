#include "cc/central_model/central_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "cc/support/float16.h"

namespace tensorbow {
namespace {

using Keeps = CentralModel::Keeps;
using Which = CentralModel::Which;

TEST(CentralModelTest, NewVariableIsZero) {
  CentralModel model(Keeps::kZ);
  const int v = model.Add(ElementType::kFloat32, 3);
  std::vector<float> values(3, 1.0f);
  model.CopyTo(v, Which::kZ, values.data());
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0}));
}

TEST(CentralModelTest, KeepsWhatTheAlgorithmWorksOn) {
  CentralModel average_only(Keeps::kAverageOnly, 0.5), z(Keeps::kZ),
      both(Keeps::kZAndPrevious, 0.5);
  for (CentralModel* model : {&average_only, &z, &both}) {
    model->Add(ElementType::kFloat32, 2);
  }
  EXPECT_FALSE(average_only.keeps_z());
  EXPECT_EQ(average_only.variable(0).z<float>(), nullptr);
  EXPECT_EQ(average_only.variable(0).previous<float>(), nullptr);
  EXPECT_NE(average_only.variable(0).average<float>(), nullptr);

  EXPECT_TRUE(z.keeps_z());
  EXPECT_NE(z.variable(0).z<float>(), nullptr);
  EXPECT_EQ(z.variable(0).previous<float>(), nullptr);
  EXPECT_EQ(z.variable(0).average<float>(), nullptr);
  EXPECT_FALSE(z.keeps_average());

  EXPECT_NE(both.variable(0).previous<float>(), nullptr);
  EXPECT_TRUE(both.keeps_average());
}

TEST(CentralModelTest, AssignSetsAllThatIsKept) {
  CentralModel model(Keeps::kZAndPrevious, 0.5);
  const int v = model.Add(ElementType::kFloat64, 2);
  const std::vector<double> values = {1.5, -2.25};
  model.Assign(v, values.data());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(model.variable(v).z<double>()[i], values[i]);
    EXPECT_EQ(model.variable(v).previous<double>()[i], values[i]);
    EXPECT_EQ(model.variable(v).average<double>()[i], values[i]);
  }
}

TEST(CentralModelTest, SwapExchangesTheTwo) {
  CentralModel model(Keeps::kZAndPrevious);
  const int index = model.Add(ElementType::kFloat32, 1);
  CentralModel::Variable& v = model.variable(index);
  *v.z<float>() = 1;
  *v.previous<float>() = 2;
  v.MarkUpToDate(0);
  v.Swap();
  EXPECT_EQ(*v.z<float>(), 2);
  EXPECT_EQ(*v.previous<float>(), 1);
  EXPECT_EQ(v.iterations(), 1);
  float value = 0;
  model.CopyTo(index, Which::kZ, &value);
  EXPECT_EQ(value, 2);
}

TEST(CentralModelTest, SlicesCoverAVariableOnce) {
  CentralModel model(Keeps::kZ);
  const int64_t size = 2 * CentralModel::kSliceElements + 5;
  const CentralModel::Variable& v =
      model.variable(model.Add(ElementType::kFloat32, size));
  ASSERT_EQ(v.num_slices(), 3);
  int64_t end = 0;
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(v.slice(s).begin, end);
    EXPECT_LE(v.slice(s).size(), CentralModel::kSliceElements);
    end = v.slice(s).end;
  }
  EXPECT_EQ(end, size);
}

TEST(CentralModelTest, SliceIsUpToDateUntilTheNextIteration) {
  CentralModel model(Keeps::kZ);
  CentralModel::Variable& v = model.variable(
      model.Add(ElementType::kFloat32, CentralModel::kSliceElements + 1));
  EXPECT_TRUE(v.up_to_date(0) && v.up_to_date(1));
  v.NextIteration();
  EXPECT_FALSE(v.up_to_date(0) || v.up_to_date(1));
  v.MarkUpToDate(1);
  EXPECT_FALSE(v.up_to_date(0));
  EXPECT_TRUE(v.up_to_date(1));
  const std::vector<float> values(v.size());
  model.Assign(0, values.data());
  EXPECT_TRUE(v.up_to_date(0) && v.up_to_date(1));
  EXPECT_EQ(v.iterations(), 0);
}

TEST(CentralModelTest, ForgetMomentumMakesThePredecessorEqual) {
  CentralModel model(Keeps::kZAndPrevious), without(Keeps::kZ);
  const int v = model.Add(ElementType::kFloat32, 1);
  *model.variable(v).z<float>() = 3;
  model.ForgetMomentum(v);
  EXPECT_EQ(*model.variable(v).previous<float>(), 3);
  EXPECT_EQ(*model.variable(v).z<float>(), 3);
  without.ForgetMomentum(without.Add(ElementType::kFloat32, 1));
}

TEST(CentralModelTest, VersionTellsOfOverwrittenValuesOnly) {
  CentralModel model(Keeps::kZAndPrevious);
  CentralModel::Variable& v = model.variable(model.Add(ElementType::kFloat32, 1));
  int64_t version = v.version();
  v.NextIteration();
  v.MarkUpToDate(0);
  v.Swap();
  EXPECT_EQ(v.version(), version);
  const float value = 0;  // equal to its value
  model.Assign(0, &value);
  EXPECT_NE(v.version(), version);
  version = v.version();
  model.ForgetMomentum(0);
  EXPECT_NE(v.version(), version);
  version = v.version();
  v.Resume(7, 7);
  EXPECT_NE(v.version(), version);
}

double AverageOf(const CentralModel& model, int variable) {
  double value = 0;
  model.CopyTo(variable, Which::kAverage, &value);
  return value;
}

TEST(CentralModelTest, AverageFollowsZ) {
  CentralModel model(Keeps::kZ, /*ema_decay=*/0.3);
  const int index = model.Add(ElementType::kFloat64, 1);
  CentralModel::Variable& v = model.variable(index);
  const double start = 8;
  model.Assign(index, &start);
  v.MarkUpToDate(0);  // no iteration yet
  EXPECT_EQ(AverageOf(model, index), 8);
  // t = 0, 1, 2, 3: d = 1/10, 2/11, 3/12, min(0.3, 4/13)
  double expected = 8, z = 4;
  for (const double d : {0.1, 2.0 / 11, 3.0 / 12, 0.3}) {
    v.NextIteration();
    *v.z<double>() = z;
    expected = d * expected + (1 - d) * z;
    for (int i = 0; i < 2; ++i) {  // moves it only once
      v.MarkUpToDate(0);
      EXPECT_DOUBLE_EQ(AverageOf(model, index), expected);
    }
    z -= 2;
  }
  // An assignment starts a new average.
  model.Assign(index, &start);
  EXPECT_EQ(AverageOf(model, index), 8);
  v.NextIteration();
  *v.z<double>() = 4;
  v.MarkUpToDate(0);
  EXPECT_DOUBLE_EQ(AverageOf(model, index), 0.1 * 8 + 0.9 * 4);
}

TEST(CentralModelTest, AverageGoesOnFromWhereItWasSaved) {
  for (const int64_t taken_in : {3, 2}) {
    CentralModel model(Keeps::kZ, /*ema_decay=*/0.9);
    CentralModel::Variable& v = model.variable(model.Add(ElementType::kFloat64, 1));
    *v.z<double>() = 4;
    *v.average<double>() = 8;
    v.Resume(3, taken_in);
    EXPECT_EQ(v.iterations(), 3);
    v.MarkUpToDate(0);  // moved at t = 2 otherwise: d = 3/12
    EXPECT_DOUBLE_EQ(AverageOf(model, 0), taken_in == 3 ? 8 : 0.25 * 8 + 0.75 * 4);
  }
}

TEST(CentralModelTest, AverageTakesInWhatReplicasAre) {
  CentralModel model(Keeps::kAverageOnly, /*ema_decay=*/0.3);
  const int index = model.Add(ElementType::kFloat16, 2);
  const Half start[] = {Half(8), Half(16)}, next[] = {Half(4), Half(-4)};
  model.Assign(index, start);
  CentralModel::Variable& v = model.variable(index);
  v.AverageNext(0, next);
  EXPECT_EQ(v.iterations(), 0);
  v.NextIteration();
  EXPECT_EQ(v.iterations(), 1);
  EXPECT_TRUE(v.up_to_date(0));
  EXPECT_FLOAT_EQ(v.average<float>()[0], 0.1f * 8 + 0.9f * 4);
  EXPECT_FLOAT_EQ(v.average<float>()[1], 0.1f * 16 - 0.9f * 4);
  v.AverageNext(0, start);
  v.NextIteration();
  EXPECT_FLOAT_EQ(v.average<float>()[0], 2.0f / 11 * 4.4f + 9.0f / 11 * 8);
}

TEST(CentralModelTest, SixteenBitVariablesAccumulateInFloat) {
  CentralModel model(Keeps::kZ);
  const int half = model.Add(ElementType::kFloat16, 2);
  const int bfloat = model.Add(ElementType::kBfloat16, 2);
  const std::vector<Half> halves = {Half(0.5f), Half(-3.0f)};
  const std::vector<Bfloat16> bfloats = {Bfloat16(0.5f), Bfloat16(-3.0f)};
  model.Assign(half, halves.data());
  model.Assign(bfloat, bfloats.data());
  // A step too small for the storage type is not lost.
  *model.variable(half).z<float>() += 1e-5f;
  EXPECT_FLOAT_EQ(*model.variable(half).z<float>(), 0.50001f);
  std::vector<Half> out(2);
  model.CopyTo(half, Which::kZ, out.data());
  EXPECT_EQ(float(out[0]), 0.5f);
  EXPECT_EQ(float(out[1]), -3.0f);
  std::vector<Bfloat16> bout(2);
  model.CopyTo(bfloat, Which::kZ, bout.data());
  EXPECT_EQ(float(bout[1]), -3.0f);
}

TEST(CentralModelTest, EmptyVariableIsFine) {
  CentralModel model(Keeps::kZAndPrevious, 0.5);
  const int v = model.Add(ElementType::kFloat32, 0);
  float nothing = 7;
  model.Assign(v, &nothing);
  model.ForgetMomentum(v);
  model.CopyTo(v, Which::kZ, &nothing);
  EXPECT_EQ(nothing, 7);
}

}  // namespace
}  // namespace tensorbow
