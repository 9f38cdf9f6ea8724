#include "cc/synchroniser/algorithms/device_sma.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/synchroniser/algorithms/independent.h"

namespace tensorbow {
namespace {

// Leaves the process without a factory, as it was before.
class DeviceSmaTest : public testing::Test {
 protected:
  ~DeviceSmaTest() override { RegisterDeviceSma(nullptr); }

  DeviceSma New() {
    return NewDeviceSma({SmaOptions::Centre::kLagging, 0.25, 3, 0.5},
                        {{0, &streams_[0]}, {1, &streams_[1]}}, &model_);
  }

  int streams_[2] = {};
  CentralModel model_{CentralModel::Keeps::kZ};
};

TEST_F(DeviceSmaTest, NoLibraryIsAnError) {
  const DeviceSma made = New();
  EXPECT_EQ(made.algorithm, nullptr);
  EXPECT_EQ(made.queue, nullptr);
  EXPECT_NE(made.error, "");
}

TEST_F(DeviceSmaTest, FactoryIsGivenWhatIsAskedFor) {
  SmaOptions options;
  std::vector<LearnerStream> learners;
  CentralModel* central = nullptr;
  RegisterDeviceSma([&](const SmaOptions& o, std::vector<LearnerStream> l,
                        CentralModel* c) -> DeviceSma {
    options = o;
    learners = std::move(l);
    central = c;
    return {std::make_unique<Independent>(), nullptr, ""};
  });
  const DeviceSma made = New();
  EXPECT_NE(made.algorithm, nullptr);
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(options.centre, SmaOptions::Centre::kLagging);
  EXPECT_EQ(options.alpha, 0.25);
  EXPECT_EQ(options.period, 3);
  EXPECT_EQ(options.momentum, 0.5);
  ASSERT_EQ(learners.size(), 2);
  EXPECT_EQ(learners[1].ordinal, 1);
  EXPECT_EQ(learners[1].stream, &streams_[1]);
  EXPECT_EQ(central, &model_);
}

TEST_F(DeviceSmaTest, RegisteringAnotherReplacesIt) {
  for (const char* name : {"first", "second"}) {
    RegisterDeviceSma(
        [name](const SmaOptions&, std::vector<LearnerStream>,
               CentralModel*) -> DeviceSma { return {nullptr, nullptr, name}; });
    EXPECT_EQ(New().error, name);
  }
}

}  // namespace
}  // namespace tensorbow
