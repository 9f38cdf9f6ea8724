// Passes that prepare tasks for an accelerator, graph in and graph out, without one.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/passes/program/unpin_variables.h"
#include "cc/passes/task/fold_shapes.h"
#include "cc/program/task_shapes.h"
#include "gtest/gtest.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tests/cc/graphs.h"
#include "tests/cc/tasks.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

const Attributes kInt = {{"dtype", "type: DT_INT32"}};

// ------------------------------------------------------------------ FoldShapes

// The divisor of a mean over all elements of x, and a filled tensor of x's shape.
Task MeanOfFeed() {
  Attributes first = kInt;
  first["value"] =
      "tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 }";
  return Task({
      NodeOf("x", "_Arg", {}, {{"T", "type: DT_FLOAT"}, {"index", "i: 0"}}),
      NodeOf("shape", "Shape", {"x"}),
      NodeOf("axes", "Const", {}, first),
      NodeOf("count", "Prod", {"shape", "axes"}, {{"T", "type: DT_INT32"}}),
      NodeOf("divisor", "Cast", {"count"}, {{"SrcT", "type: DT_INT32"}}),
      NodeOf("quotient", "RealDiv", {"x", "divisor"}),
      NodeOf("value", "Const"),
      NodeOf("filled", "Fill", {"shape", "value"}),
      NodeOf("sum", "AddV2", {"quotient", "filled"}),
      NodeOf("after", "NoOp", {"^divisor"}),
      NodeOf("result", "_Retval", {"sum"}, {{"index", "i: 0"}}),
  });
}

// Returns the node of an input, and its value if it is a constant.
std::pair<const tf::Node*, std::optional<tf::Tensor>> InputOf(const Task& task,
                                                              const std::string& name,
                                                              int input) {
  const tf::Node* source = nullptr;
  EXPECT_TRUE(task.Find(name)->input_node(input, &source).ok());
  tf::Tensor value;
  if (!tf::GetNodeAttr(source->attrs(), "value", &value).ok()) return {source, {}};
  return {source, value};
}

TEST(FoldShapesTest, MakesConstantsOfWhatFollowsFromTheShapesOfFeeds) {
  Task task = MeanOfFeed();
  const absl::StatusOr<bool> folded = FoldShapes({{4, 3}}, task.get());
  ASSERT_TRUE(folded.ok()) << folded.status();
  EXPECT_TRUE(*folded);
  EXPECT_EQ(task.Find("shape"), nullptr);
  EXPECT_EQ(task.Find("count"), nullptr);
  const auto [divisor, value] = InputOf(task, "quotient", 1);
  ASSERT_TRUE(value.has_value()) << divisor->DebugString();
  EXPECT_EQ(value->scalar<float>()(), 12);
  EXPECT_EQ(divisor->assigned_device_name(),
            task.Find("quotient")->assigned_device_name());
  EXPECT_TRUE(task.Waits("after", divisor->name()));
  const auto [filled, all] = InputOf(task, "sum", 1);
  ASSERT_TRUE(all.has_value()) << filled->DebugString();
  EXPECT_EQ(all->shape(), tf::TensorShape({4, 3}));
}

TEST(FoldShapesTest, LeavesLargeValuesToTheTask) {
  Task task = MeanOfFeed();
  const absl::StatusOr<bool> folded = FoldShapes({{2000, 3}}, task.get());
  ASSERT_TRUE(folded.ok()) << folded.status();
  EXPECT_TRUE(*folded);
  EXPECT_EQ(InputOf(task, "quotient", 1).second->scalar<float>()(), 6000);
  EXPECT_EQ(InputOf(task, "sum", 1).first->name(), "filled");
}

TEST(FoldShapesTest, ChangesNothingIfNoShapeIsKnown) {
  Task task = MeanOfFeed();
  const absl::StatusOr<bool> folded = FoldShapes({}, task.get());
  ASSERT_TRUE(folded.ok()) << folded.status();
  EXPECT_FALSE(*folded);
  EXPECT_EQ(InputOf(task, "quotient", 1).first->name(), "divisor");
}

// -------------------------------------------------------------- UnpinVariables

tf::NodeDef On(const std::string& device, tf::NodeDef node) {
  node.set_device(device);
  return node;
}

TEST(UnpinVariablesTest, FreesTrainedVariablesTheirSlotsAndTheirNeighbours) {
  const std::string cpu = "/job:localhost/replica:0/task:0/device:CPU:0";
  const Attributes beside = {{"_class", "list { s: 'loc:@w' }"}};
  tf::GraphDef graph = GraphOf({
      On(cpu, NodeOf("w", "VariableV2")),
      On("/device:CPU:0", NodeOf("w/Momentum", "VariableV2")),
      On("/cpu:0", NodeOf("w/read", "Identity", {"w"})),
      On(cpu, NodeOf("beside", "NoOp", {}, beside)),
      On(cpu, NodeOf("rate", "Const")),
      On(cpu, NodeOf("gradient", "Const")),
      NodeOf("update", "ApplyMomentum",
             {"w", "w/Momentum", "rate", "gradient", "rate"}),
      On(cpu, NodeOf("counter", "VariableV2")),
      On(cpu, NodeOf("after", "NoOp", {"^w"})),
      On("/device:CPU:1", NodeOf("emulated", "Identity", {"w"})),
  });
  EXPECT_TRUE(UnpinVariables({"w"}, &graph));
  std::vector<std::string> pinned;
  for (const tf::NodeDef& node : graph.node()) {
    if (!node.device().empty()) pinned.push_back(node.name());
  }
  EXPECT_EQ(pinned, (std::vector<std::string>{"rate", "gradient", "counter", "after",
                                              "emulated"}));
  EXPECT_FALSE(UnpinVariables({"w"}, &graph)) << "nothing is left to free";
}

// ------------------------------------------------------------------ ShapeCounts

TaskShapes Rows(int64_t count) { return {tf::TensorShape({count, 3}), {}}; }

TEST(ShapeCountsTest, NamesShapesOnceWhenTheyComeForTheThirdTime) {
  ShapeCounts counts(3);
  for (int run = 0; run < 2; ++run) EXPECT_FALSE(counts.Count({Rows(8), Rows(7)}));
  EXPECT_EQ(counts.Count({Rows(8), Rows(7)}), Rows(8));
  EXPECT_EQ(counts.Count({Rows(8), Rows(7)}), Rows(7));
  EXPECT_FALSE(counts.Count({Rows(8), Rows(7)}));
}

TEST(ShapeCountsTest, NamesThreeAtMost) {
  ShapeCounts counts(3);
  int named = 0;
  for (int rows = 1; rows <= 5; ++rows) {
    for (int run = 0; run < 3; ++run) named += counts.Count({Rows(rows)}).has_value();
  }
  EXPECT_EQ(named, 3);
}

TEST(ShapeCountsTest, ForgetsShapesOfLongAgo) {
  ShapeCounts counts(3);
  counts.Count({Rows(100)});
  counts.Count({Rows(100)});
  for (int rows = 1; rows <= 16; ++rows) counts.Count({Rows(rows)});
  EXPECT_FALSE(counts.Count({Rows(100)}));
}

TEST(ShapesOfTasksTest, CutsTheDividedFeedsAndNamesEachShapeOnce) {
  FeedPlan plan;
  plan.tasks = {{0, 4}, {4, 8}, {8, 11}};
  plan.divided = {true, false};
  const std::vector<tf::Tensor> feeds = {tf::Tensor(tf::DT_FLOAT, {11, 3}),
                                         tf::Tensor(tf::DT_FLOAT, {})};
  EXPECT_EQ(ShapesOfTasks(plan, feeds), (std::vector<TaskShapes>{Rows(4), Rows(3)}));
}

}  // namespace
}  // namespace tensorbow
