#include "cc/central_model/central_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "cc/support/float16.h"

namespace tensorbow {
namespace {

TEST(CentralModelTest, NewVariableIsZero) {
  CentralModel model;
  const int v = model.Add(ElementType::kFloat32, 3);
  std::vector<float> values(3, 1.0f);
  model.CopyTo(v, CentralModel::Which::kCurrent, values.data());
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0}));
}

TEST(CentralModelTest, AssignSetsBothValues) {
  CentralModel model;
  const int v = model.Add(ElementType::kFloat64, 2);
  const std::vector<double> values = {1.5, -2.25};
  model.Assign(v, values.data());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(model.variable(v).current<double>()[i], values[i]);
    EXPECT_EQ(model.variable(v).other<double>()[i], values[i]);
  }
}

TEST(CentralModelTest, SwapExchangesTheTwo) {
  CentralModel model;
  const int index = model.Add(ElementType::kFloat32, 1);
  CentralModel::Variable& v = model.variable(index);
  *v.current<float>() = 1;
  *v.other<float>() = 2;
  v.Swap();
  EXPECT_EQ(*v.current<float>(), 2);
  EXPECT_EQ(*v.other<float>(), 1);
  float value = 0;
  model.CopyTo(index, CentralModel::Which::kCurrent, &value);
  EXPECT_EQ(value, 2);
}

TEST(CentralModelTest, SlicesCoverAVariableOnce) {
  CentralModel model;
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

TEST(CentralModelTest, ForgetMomentumMakesTheOtherEqual) {
  CentralModel model;
  const int v = model.Add(ElementType::kFloat32, 1);
  *model.variable(v).current<float>() = 3;
  model.ForgetMomentum(v);
  EXPECT_EQ(*model.variable(v).other<float>(), 3);
}

TEST(CentralModelTest, AverageFollowsZ) {
  CentralModel model(/*ema_decay=*/0.3);
  const int index = model.Add(ElementType::kFloat64, 1);
  CentralModel::Variable& v = model.variable(index);
  const double start = 8;
  model.Assign(index, &start);
  auto average = [&] {
    double value = 0;
    model.CopyTo(index, CentralModel::Which::kAverage, &value);
    return value;
  };
  EXPECT_EQ(average(), 8);
  // t = 0: d = 1/10
  *v.other<double>() = 4;
  v.Swap();
  EXPECT_DOUBLE_EQ(average(), 0.1 * 8 + 0.9 * 4);
  EXPECT_DOUBLE_EQ(average(), 0.1 * 8 + 0.9 * 4);  // once only
  // t = 1: d = 2/11; t = 2: d = 3/12; t = 3: d = min(0.3, 4/13)
  double expected = 4.4;
  for (const double d : {2.0 / 11, 3.0 / 12, 0.3}) {
    *v.other<double>() = 2;
    v.Swap();
    expected = d * expected + (1 - d) * 2;
    v.TakeIn(0);
    EXPECT_DOUBLE_EQ(average(), expected);
  }
  // An assignment begins a new average.
  model.Assign(index, &start);
  EXPECT_EQ(average(), 8);
}

TEST(CentralModelTest, AverageTakesInWhatZFollows) {
  CentralModel model(/*ema_decay=*/0.3);
  const int index = model.Add(ElementType::kFloat16, 2);
  const Half start[] = {Half(8), Half(16)}, next[] = {Half(4), Half(-4)};
  model.Assign(index, start);
  CentralModel::Variable& v = model.variable(index);
  v.TakeInNext(0, next);
  EXPECT_EQ(v.iterations(), 0);
  v.Follow();
  EXPECT_EQ(v.iterations(), 1);
  for (int i = 0; i < 2; ++i) {  // following z or not makes no difference
    EXPECT_FLOAT_EQ(v.average<float>()[0], 0.1f * 8 + 0.9f * 4);
    EXPECT_FLOAT_EQ(v.average<float>()[1], 0.1f * 16 - 0.9f * 4);
    model.Follow(index, next);
    EXPECT_EQ(v.current<float>()[0], 4);
    EXPECT_EQ(v.other<float>()[1], -4);
  }
  v.TakeInNext(0, start);
  v.Follow();
  EXPECT_FLOAT_EQ(v.average<float>()[0], 2.0f / 11 * 4.4f + 9.0f / 11 * 8);
}

TEST(CentralModelTest, SixteenBitVariablesAccumulateInFloat) {
  CentralModel model;
  const int half = model.Add(ElementType::kFloat16, 2);
  const int bfloat = model.Add(ElementType::kBfloat16, 2);
  const std::vector<Half> halves = {Half(0.5f), Half(-3.0f)};
  const std::vector<Bfloat16> bfloats = {Bfloat16(0.5f), Bfloat16(-3.0f)};
  model.Assign(half, halves.data());
  model.Assign(bfloat, bfloats.data());
  // A step too small for the storage type is not lost.
  *model.variable(half).current<float>() += 1e-5f;
  EXPECT_FLOAT_EQ(*model.variable(half).current<float>(), 0.50001f);
  std::vector<Half> out(2);
  model.CopyTo(half, CentralModel::Which::kCurrent, out.data());
  EXPECT_EQ(float(out[0]), 0.5f);
  EXPECT_EQ(float(out[1]), -3.0f);
  std::vector<Bfloat16> bout(2);
  model.CopyTo(bfloat, CentralModel::Which::kCurrent, bout.data());
  EXPECT_EQ(float(bout[1]), -3.0f);
}

TEST(CentralModelTest, EmptyVariableIsFine) {
  CentralModel model;
  const int v = model.Add(ElementType::kFloat32, 0);
  float nothing = 7;
  model.Assign(v, &nothing);
  model.CopyTo(v, CentralModel::Which::kCurrent, &nothing);
  EXPECT_EQ(nothing, 7);
}

}  // namespace
}  // namespace tensorbow
