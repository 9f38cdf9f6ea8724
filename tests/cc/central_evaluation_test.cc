// Graphs that are evaluated on the variables and tables of a stock session, beside it.
#include "cc/learner/central_evaluation.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/op_segment.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"
#include "tests/cc/graphs.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Feeds = std::vector<tf::Tensor>;

tf::Tensor Scalar(float value) {
  tf::Tensor tensor(tf::DT_FLOAT, {});
  tensor.scalar<float>()() = value;
  return tensor;
}

constexpr char kTableHandle[] = "tables";  // under which the test keeps kernels

class CentralEvaluationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_.reset(tf::NewSession(options_));
    ASSERT_NE(session_, nullptr);
    ASSERT_TRUE(session_->LocalDeviceManager(&devices_).ok());
    tf::Device* const device = devices_->ListDevices().front();
    environment_.options = &options_;
    environment_.central_device = device;
    environment_.host_runner = [](std::function<void()> closure) { closure(); };
    device->op_segment()->AddHold(kTableHandle);
    environment_.shared_kernel =
        [this, device](const std::shared_ptr<const tf::NodeProperties>& node,
                       tf::FunctionLibraryRuntime* runtime, tf::OpKernel** kernel) {
          shared_.insert(node->node_def.name());
          return device->op_segment()->FindOrCreate(
              kTableHandle, node->node_def.name(), kernel,
              [&](tf::OpKernel** made) { return runtime->CreateKernel(node, made); });
        };
  }

  void TearDown() override {
    environment_.central_device->op_segment()->RemoveHold(kTableHandle);
  }

  // What `spec` needs of the nodes, of which the session knows the first `known` alone.
  std::unique_ptr<CentralEvaluation> Compile(const std::vector<tf::NodeDef>& nodes,
                                             size_t known, const RunSpec& spec) {
    EXPECT_TRUE(session_->Extend(GraphOf({nodes.begin(), nodes.begin() + known})).ok());
    EXPECT_TRUE(graph_.Extend(GraphOf(nodes)).ok());
    auto made = CentralEvaluation::Make(graph_, spec, environment_, devices_);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }

  tf::SessionOptions options_;
  std::unique_ptr<tf::Session> session_;
  const tf::DeviceMgr* devices_ = nullptr;  // the session's
  LearnerEnvironment environment_;
  ProgramGraph graph_;
  std::set<std::string> shared_;  // nodes that a kernel was asked for
};

TEST_F(CentralEvaluationTest, SeesWhatTheSessionWrites) {
  const std::vector<tf::NodeDef> nodes = {
      NodeOf("w", "VarHandleOp", {}, {{"shared_name", "s: 'w'"}}),
      NodeOf("value", "Placeholder"),
      NodeOf("write", "AssignVariableOp", {"w", "value"}),
      NodeOf("x", "Placeholder"),
      NodeOf("read", "ReadVariableOp", {"w"}),
      NodeOf("product", "Mul", {"read", "x"})};
  const auto evaluation = Compile(nodes, 3, {{"x:0"}, {"product:0", "read:0"}, {}});
  ASSERT_NE(evaluation, nullptr);
  Feeds values;
  EXPECT_TRUE(absl::IsFailedPrecondition(evaluation->Run({Scalar(2)}, &values)));
  for (float w : {3.0f, 5.0f}) {
    ASSERT_TRUE(session_->Run({{"value", Scalar(w)}}, {}, {"write"}, nullptr).ok());
    ASSERT_TRUE(evaluation->Run({Scalar(2)}, &values).ok());
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(values[0].scalar<float>()(), 2 * w);
    EXPECT_EQ(values[1].scalar<float>()(), w);
  }
  EXPECT_TRUE(shared_.empty());
}

TEST_F(CentralEvaluationTest, LeavesTheSessionsGraphAlone) {
  const std::vector<tf::NodeDef> nodes = {NodeOf("known", "Const"),
                                          NodeOf("own", "Neg", {"known"})};
  const auto evaluation = Compile(nodes, 1, {{}, {"own:0"}, {}});
  ASSERT_NE(evaluation, nullptr);
  Feeds values;
  ASSERT_TRUE(evaluation->Run({}, &values).ok());
  EXPECT_EQ(values[0].scalar<float>()(), -0.5f);
  const absl::Status status = session_->Run({}, {"own"}, {}, &values);
  EXPECT_NE(status.message().find("not found"), std::string::npos) << status;
}

TEST_F(CentralEvaluationTest, HasOneKernelOfATableWithTheSession) {
  const std::vector<tf::NodeDef> nodes = {
      NodeOf("table", "HashTableV2", {},
             {{"key_dtype", "type: DT_INT64"}, {"value_dtype", "type: DT_FLOAT"}}),
      NodeOf("size", "LookupTableSizeV2", {"table"})};
  auto evaluation = Compile(nodes, 2, {{}, {"size:0"}, {}});
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(evaluation, nullptr);
    Feeds values;
    ASSERT_TRUE(evaluation->Run({}, &values).ok());
    EXPECT_EQ(values[0].scalar<int64_t>()(), 0);
    // The kernel outlives an evaluation.
    evaluation.reset();
    auto again =
        CentralEvaluation::Make(graph_, {{}, {"size:0"}, {}}, environment_, devices_);
    ASSERT_TRUE(again.ok()) << again.status();
    evaluation = *std::move(again);
  }
  EXPECT_EQ(shared_, std::set<std::string>{"table"});
}

TEST_F(CentralEvaluationTest, SaysWhatIsWrong) {
  const std::vector<tf::NodeDef> nodes = {
      NodeOf("x", "Placeholder", {}, {{"shape", "shape { unknown_rank: true }"}}),
      NodeOf("y", "Placeholder", {}, {{"shape", "shape { unknown_rank: true }"}}),
      NodeOf("sum", "AddV2", {"x", "y"})};
  const auto evaluation = Compile(nodes, 0, {{"x:0", "y:0"}, {"sum:0"}, {}});
  ASSERT_NE(evaluation, nullptr);
  Feeds values;
  const absl::Status status = evaluation->Run(
      {tf::Tensor(tf::DT_FLOAT, {2}), tf::Tensor(tf::DT_FLOAT, {3})}, &values);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(evaluation->Run({Scalar(1), Scalar(2)}, &values).ok());
  EXPECT_EQ(values[0].scalar<float>()(), 3);
}

}  // namespace
}  // namespace tensorbow
