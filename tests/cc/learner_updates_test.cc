// The updates of a task graph: fused, or preceded by averaged gradients.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "cc/passes/task/fuse_updates.h"
#include "cc/passes/task/reduce_gradients.h"
#include "tests/cc/tasks.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Nodes = std::vector<tf::NodeDef>;

bool Always(const tf::Node&) { return true; }

// Makes the constants that updates use, and a variable for each of `names`.
Nodes Variables(const std::vector<std::string>& names) {
  Nodes nodes = {NodeOf("rate", "Const"), NodeOf("gradient", "Const")};
  for (const std::string& name : names) nodes.push_back(NodeOf(name, "VarHandleOp"));
  return nodes;
}

tf::NodeDef Descend(const std::string& variable, const std::string& gradient) {
  return NodeOf("update_" + variable, "ResourceApplyGradientDescent",
                {variable, "rate", gradient});
}

TEST(FuseUpdatesTest, AnUpdateKeepsItsNameAndInputsAndLearnsItsNumber) {
  Nodes nodes = Variables({"a", "b"});
  nodes.push_back(Descend("a", "gradient"));
  nodes.push_back(Descend("b", "gradient"));
  nodes.push_back(NodeOf("after", "NoOp", {"^update_b"}));
  Task task(nodes);
  const auto fused = FuseUpdates({"a", "b"}, Always, task.get());
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(*fused, std::vector<bool>({true, true}));
  const tf::Node* const update = task.Find("update_b");
  ASSERT_NE(update, nullptr);
  EXPECT_EQ(update->type_string(), "TensorBowResourceApplyGradientDescent");
  EXPECT_EQ(update->attrs().Find("member")->i(), 1);
  const char* const inputs[] = {"b", "rate", "gradient"};
  for (int i = 0; i < 3; ++i) {
    const tf::Node* input = nullptr;
    ASSERT_TRUE(update->input_node(i, &input).ok());
    EXPECT_EQ(input->name(), inputs[i]);
  }
  EXPECT_TRUE(task.Waits("after", "update_b"));
}

TEST(FuseUpdatesTest, OnlyTheOneUpdateOfATrainedVariableIsReplaced) {
  Nodes nodes = Variables({"once", "twice", "state", "refused"});
  nodes.push_back(Descend("once", "gradient"));
  nodes.push_back(Descend("twice", "gradient"));
  nodes.push_back(NodeOf("again", "AssignSubVariableOp", {"twice", "gradient"}));
  nodes.push_back(Descend("state", "gradient"));
  nodes.push_back(Descend("refused", "gradient"));
  Task task(nodes);
  const auto fused = FuseUpdates(
      {"once", "twice", "refused"},
      [](const tf::Node& update) { return update.name() != "update_refused"; },
      task.get());
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_EQ(*fused, std::vector<bool>({true, false, false}));
  for (const char* name : {"update_twice", "update_state", "update_refused"}) {
    EXPECT_EQ(task.Find(name)->type_string(), "ResourceApplyGradientDescent") << name;
  }
}

// Makes two variables with a gradient each, updated by ops that are not fused.
Nodes TwoUpdates() {
  Nodes nodes = Variables({"a", "b"});
  for (const char* variable : {"a", "b"}) {
    const std::string gradient = std::string("gradient_") + variable;
    nodes.push_back(NodeOf(gradient, "Neg", {"gradient"}));
    nodes.push_back(Descend(variable, gradient));
  }
  return nodes;
}

std::map<std::string, int> Numbers(const Task& task) {
  std::map<std::string, int> numbers;
  for (const char* name :
       {"update_a/TensorBow.average", "update_b/TensorBow.average"}) {
    const tf::Node* const average = task.Find(name);
    EXPECT_NE(average, nullptr) << name;
    if (average != nullptr) numbers[name] = average->attrs().Find("index")->i();
  }
  return numbers;
}

TEST(ReduceGradientsTest, TheOrderOfAveragesDoesNotDependOnTheOrderOfNodes) {
  const Nodes nodes = TwoUpdates();
  Task one(nodes), other(Nodes(nodes.rbegin(), nodes.rend()));
  for (Task* task : {&one, &other}) {
    const auto count = ReduceGradients({"a", "b"}, {}, std::nullopt,
                                       Averaging::kInUpdates, task->get());
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, 2);
  }
  EXPECT_EQ(Numbers(one), Numbers(other));
  EXPECT_NE(Numbers(one).begin()->second, Numbers(one).rbegin()->second);
}

TEST(ReduceGradientsTest, AllGradientsThenAllAveragesThenTheUpdates) {
  Task task(TwoUpdates());
  ASSERT_TRUE(
      ReduceGradients({"a", "b"}, {}, std::nullopt, Averaging::kInUpdates, task.get())
          .ok());
  std::map<int, std::string> averages;
  for (const auto& [name, number] : Numbers(task)) averages[number] = name;
  ASSERT_EQ(averages.size(), 2);
  std::string gathered;
  for (const tf::Edge* edge : task.Find(averages[0])->in_edges()) {
    if (edge->IsControlEdge() && !edge->src()->IsSource()) {
      gathered = edge->src()->name();
    }
  }
  ASSERT_TRUE(absl::StartsWith(gathered, "TensorBow.gradients")) << gathered;
  EXPECT_TRUE(task.Waits(gathered, "gradient_a"));
  EXPECT_TRUE(task.Waits(gathered, "gradient_b"));
  EXPECT_TRUE(task.Waits(averages[1], averages[0]));
  EXPECT_TRUE(task.Waits("update_a", averages[1]));
  EXPECT_TRUE(task.Waits("update_b", averages[1]));
}

TEST(ReduceGradientsTest, FusedUpdatesAverageByThemselvesOneAfterTheOther) {
  Task task(TwoUpdates());
  ASSERT_TRUE(FuseUpdates({"a", "b"}, IsOfGradient, task.get()).ok());
  const auto count =
      ReduceGradients({"a", "b"}, {}, std::nullopt, Averaging::kInUpdates, task.get());
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, 0);
  EXPECT_NE(task.Waits("update_a", "update_b"), task.Waits("update_b", "update_a"));
}

TEST(ReduceGradientsTest, AnUpdateWithoutAGradientIsRefusedByName) {
  Nodes nodes = Variables({"a"});
  nodes.push_back(NodeOf("scale", "Mul", {"rate", "gradient"}));
  nodes.push_back(NodeOf("by_hand", "AssignSubVariableOp", {"a", "scale"}));
  Task task(nodes);
  const absl::Status status =
      ReduceGradients({"a"}, {}, std::nullopt, Averaging::kInUpdates, task.get())
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "'a'")) << status;
}

// Makes two variables; the gradient of "b" follows from the update of "a".
Nodes LateGradient() {
  Nodes nodes = Variables({"a", "b"});
  nodes.push_back(Descend("a", "gradient"));
  nodes.push_back(NodeOf("later", "Neg", {"gradient", "^update_a"}));
  nodes.push_back(Descend("b", "later"));
  return nodes;
}

std::string NameOfBegin(const Task& task) {
  for (const tf::Node* node : task.get()->parts[0].graph->op_nodes()) {
    if (node->type_string() == kBeginUpdates) return node->name();
  }
  return "";
}

TEST(ReduceGradientsTest, AGradientAfterAnUpdateIsAveragedAfterIt) {
  for (const bool fused : {false, true}) {
    SCOPED_TRACE(fused);
    Task task(LateGradient());
    if (fused) {
      ASSERT_TRUE(FuseUpdates({"a", "b"}, IsOfGradient, task.get()).ok());
    }
    const auto count = ReduceGradients({"a", "b"}, {}, std::nullopt,
                                       Averaging::kInUpdates, task.get());
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, fused ? 0 : 2);
    const std::string begin = NameOfBegin(task);
    EXPECT_TRUE(task.Waits(begin, "gradient"));
    EXPECT_FALSE(task.Waits(begin, "later"));
    if (fused) {
      EXPECT_TRUE(task.Waits("update_a", begin));
      EXPECT_TRUE(task.Waits("update_b", "update_a"));
      continue;
    }
    // The first update does not wait for the second average, which waits for it.
    const std::string first = "update_a/TensorBow.average",
                      second = "update_b/TensorBow.average";
    EXPECT_EQ(Numbers(task)[first], 0);
    EXPECT_TRUE(task.Waits(first, begin));
    EXPECT_TRUE(task.Waits("update_a", first));
    EXPECT_FALSE(task.Waits("update_a", second));
    EXPECT_TRUE(task.Waits(second, first));
    EXPECT_TRUE(task.Waits("update_b", second));
  }
}

TEST(ReduceGradientsTest, HostsRefuseAGradientAfterAnUpdate) {
  Task task(LateGradient());
  const absl::Status status =
      ReduceGradients({"a", "b"}, {}, std::nullopt, Averaging::kBefore, task.get())
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "'later'")) << status;
}

TEST(ReduceGradientsTest, AWriteBeforeTheGradientsIsNoUpdate) {
  Nodes nodes = Variables({"a"});
  nodes.push_back(NodeOf("project", "AssignVariableOp", {"a", "rate"}));
  nodes.push_back(NodeOf("later", "Neg", {"gradient", "^project"}));
  nodes.push_back(
      NodeOf("update_a", "ResourceApplyGradientDescent", {"a", "rate", "later"}));
  Task task(nodes);
  const auto count = ReduceGradients({"a"}, {}, std::set<std::string>{"update_a"},
                                     Averaging::kBefore, task.get());
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, 1);
  EXPECT_TRUE(task.Waits(NameOfBegin(task), "later"));
  EXPECT_FALSE(task.Waits("project", NameOfBegin(task)));
}

}  // namespace
}  // namespace tensorbow
