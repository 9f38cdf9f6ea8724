// The variables that learners can share, and the changes to the graph for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/central_model/central_model.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/fuse_updates.h"
#include "cc/passes/task/reduce_gradients.h"
#include "cc/passes/task/share_variables.h"
#include "cc/program/sharing.h"
#include "tests/cc/tasks.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Groups = std::set<std::vector<std::string>>;
using Names = std::set<std::string>;

// Makes a variable, by default of more than a slice.
tf::NodeDef VariableOf(const std::string& name, bool resource,
                       Attributes attributes = {}, int64_t size = 40'000) {
  attributes["shape"] = absl::StrCat("shape { dim { size: ", size, " } }");
  return NodeOf(name, resource ? "VarHandleOp" : "VariableV2", {}, attributes);
}

// The task graph of a momentum step: a variable w, its slot, and a gradient computed
// from the value of w. `others` are more nodes.
class Momentum {
 public:
  Momentum(bool resource, std::vector<tf::NodeDef> others = {}, int64_t size = 40'000)
      : task_(Nodes(resource, std::move(others), size)) {
    const std::vector<std::string> trained = {"w"};
    EXPECT_TRUE(FuseUpdates(trained, IsOfGradient, task_.get()).ok());
    const auto count =
        ReduceGradients(trained, {}, std::nullopt, Averaging::kInUpdates, task_.get());
    EXPECT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(task_.Find("update")->type_string(),
              resource ? "TensorBowResourceApplyMomentum" : "TensorBowApplyMomentum");
  }

  Groups SharableGroups() {
    const SharableVariables found = FindSharableVariables(*task_.get());
    return {found.groups.begin(), found.groups.end()};
  }

  // Returns the node at which learners wait for each other before their updates.
  const tf::Node* begin() const {
    for (const tf::Node* node : task_.get()->parts[0].graph->op_nodes()) {
      if (node->type_string() == kBeginUpdates) return node;
    }
    return nullptr;
  }

  Task task_;

 private:
  static std::vector<tf::NodeDef> Nodes(bool resource, std::vector<tf::NodeDef> others,
                                        int64_t size) {
    const char* const read = resource ? "ReadVariableOp" : "Identity";
    const char* const update = resource ? "ResourceApplyMomentum" : "ApplyMomentum";
    std::vector<tf::NodeDef> nodes = {
        NodeOf("rate", "Const"),
        VariableOf("w", resource, {}, size),
        VariableOf("m", resource, {}, size),
        NodeOf("read", read, {"w"}),
        NodeOf("gradient", "Neg", {"read"}),
        NodeOf("update", update, {"w", "m", "rate", "gradient", "rate"})};
    nodes.insert(nodes.end(), others.begin(), others.end());
    return nodes;
  }
};

class SharedVariablesTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, SharedVariablesTest, testing::Bool(), [](const auto& info) {
  return info.param ? "resource" : "reference";
});

TEST_P(SharedVariablesTest, AVariableGoesWithItsSlots) {
  EXPECT_EQ(Momentum(GetParam()).SharableGroups(), Groups({{"w", "m"}}));
}

TEST_P(SharedVariablesTest, WhatIsNotMoreThanASliceHasCopies) {
  const int64_t slice = CentralModel::kSliceElements;
  EXPECT_EQ(Momentum(GetParam(), {}, slice).SharableGroups(), Groups());
  EXPECT_EQ(Momentum(GetParam(), {}, slice + 1).SharableGroups(), Groups({{"w", "m"}}));
}

TEST_P(SharedVariablesTest, WhatIsWrittenOtherwiseAndItsGroupAreNot) {
  const bool resource = GetParam();
  const std::string assign = resource ? "AssignAddVariableOp" : "AssignAdd";
  Momentum step(resource, {NodeOf("step", resource ? "VarHandleOp" : "VariableV2"),
                           NodeOf("count", assign, {"step", "rate"})});
  EXPECT_EQ(step.SharableGroups(), Groups({{"w", "m"}}));
  EXPECT_EQ(FindSharableVariables(*step.task_.get()).used, Names({"w", "m", "step"}));
  Momentum slot(resource, {NodeOf("decay", assign, {"m", "rate"})});
  EXPECT_EQ(slot.SharableGroups(), Groups());
}

TEST_P(SharedVariablesTest, WhatIsOnlyReadIsAGroupOfItsOwn) {
  const bool resource = GetParam();
  Momentum frozen(resource, {NodeOf("frozen", resource ? "VarHandleOp" : "VariableV2"),
                             NodeOf("value", resource ? "ReadVariableOp" : "Identity",
                                    {"frozen"})});
  EXPECT_EQ(frozen.SharableGroups(), Groups({{"w", "m"}, {"frozen"}}));
}

TEST_P(SharedVariablesTest, EveryReaderIsBeforeAllUpdatesOrAfterItsVariables) {
  const char* const read = GetParam() ? "ReadVariableOp" : "Identity";
  Momentum after(GetParam(), {NodeOf("new", read, {"w", "^update"})});
  EXPECT_EQ(after.SharableGroups(), Groups({{"w", "m"}}));
  Momentum before(GetParam(), {NodeOf("old", read, {"m"})});
  int gradients = 3;
  ASSERT_TRUE(ShareVariables({"w", "m"}, before.task_.get(), &gradients).ok());
  EXPECT_TRUE(before.task_.Waits(before.begin()->name(), "old"));
}

TEST(SharableVariablesTest, AReaderBetweenTheGradientsAndTheUpdateKeepsItApart) {
  const std::vector<tf::NodeDef> nodes = {
      NodeOf("rate", "Const"),
      VariableOf("a", true),
      VariableOf("b", true),
      NodeOf("gradient", "Neg", {"rate"}),
      NodeOf("update_a", "ResourceApplyGradientDescent", {"a", "rate", "gradient"}),
      NodeOf("update_b", "ResourceApplyGradientDescent", {"b", "rate", "gradient"}),
      NodeOf("read_a", "ReadVariableOp", {"a", "^update_b"}),
      NodeOf("read_b", "ReadVariableOp", {"b", "^update_b"})};
  Task task(nodes);
  ASSERT_TRUE(FuseUpdates({"a", "b"}, IsOfGradient, task.get()).ok());
  ASSERT_TRUE(
      ReduceGradients({"a", "b"}, {}, std::nullopt, Averaging::kInUpdates, task.get())
          .ok());
  const auto groups = FindSharableVariables(*task.get()).groups;
  // Fused updates are chained; if a's is the first, its reader comes last.
  const bool a_first = task.Waits("update_b", "update_a");
  EXPECT_EQ(Groups(groups.begin(), groups.end()),
            a_first ? Groups({{"a"}, {"b"}}) : Groups({{"b"}}));
}

TEST_P(SharedVariablesTest, AReaderInABranchKeepsItApart) {
  const char* const read = GetParam() ? "ReadVariableOp" : "Identity";
  const std::string type = "type: DT_BOOL";
  std::vector<tf::NodeDef> nodes = {
      NodeOf("condition", "Placeholder", {}, {{"dtype", type}}),
      NodeOf("branch", "Switch", {"condition", "condition"}, {{"T", type}}),
      NodeOf("pivot", "Identity", {"branch:1"}, {{"T", type}})};
  nodes.push_back(NodeOf("may_read", read, {"m", "^pivot"}));
  EXPECT_EQ(Momentum(GetParam(), nodes).SharableGroups(), Groups());
  nodes.back() = NodeOf("may_read", read, {"m", "^pivot", "^update"});
  EXPECT_EQ(Momentum(GetParam(), nodes).SharableGroups(), Groups({{"w", "m"}}));
}

TEST(SharableVariablesTest, VariablesOfOneNameOrWithAnAggregationAreNot) {
  Momentum twice(true, {VariableOf("other", true, {{"shared_name", "s: 'w'"}}),
                        NodeOf("value", "ReadVariableOp", {"other"})});
  EXPECT_EQ(twice.SharableGroups(), Groups());
  Momentum counts(
      true, {NodeOf("sum", "VarHandleOp", {}, {{kAggregationAttribute, "s: 'sum'"}}),
             NodeOf("value", "ReadVariableOp", {"sum"})});
  EXPECT_EQ(counts.SharableGroups(), Groups({{"w", "m"}}));
}

TEST(SharableVariablesTest, ReferencesOfASecondTypeAreNot) {
  const std::string type = "type: DT_DOUBLE";
  std::vector<tf::NodeDef> nodes = {
      VariableOf("a", false),
      VariableOf("b", false, {{"dtype", type}}),
      NodeOf("one", "Const"),
      NodeOf("two", "Cast", {"one"}, {{"SrcT", "type: DT_FLOAT"}, {"DstT", type}}),
      NodeOf("update_a", "ApplyGradientDescent", {"a", "one", "one"}),
      NodeOf("update_b", "ApplyGradientDescent", {"b", "two", "two"}, {{"T", type}})};
  Task task(nodes);
  ASSERT_TRUE(FuseUpdates({"a", "b"}, IsOfGradient, task.get()).ok());
  ASSERT_TRUE(
      ReduceGradients({"a", "b"}, {}, std::nullopt, Averaging::kInUpdates, task.get())
          .ok());
  const auto groups = FindSharableVariables(*task.get()).groups;
  EXPECT_EQ(Groups(groups.begin(), groups.end()), Groups({{"a"}}));
}

TEST_P(SharedVariablesTest, LearnersMeetBeforeTheUpdatesOfOneCopy) {
  Momentum momentum(GetParam());
  Task& task = momentum.task_;
  int gradients = 3;
  ASSERT_TRUE(ShareVariables({}, task.get(), &gradients).ok());
  EXPECT_EQ(gradients, 3);
  EXPECT_FALSE(task.Find("update")->attrs().Find("shared")->b());
  ASSERT_TRUE(ShareVariables({"w", "m"}, task.get(), &gradients).ok());
  EXPECT_EQ(gradients, 4);
  EXPECT_TRUE(task.Find("update")->attrs().Find("shared")->b());
  const tf::Node* const begin = momentum.begin();
  ASSERT_NE(begin, nullptr);
  EXPECT_EQ(begin->attrs().Find("index")->i(), 3);
  ASSERT_EQ(begin->num_inputs(), 2);
  Names inputs;
  for (int i = 0; i < 2; ++i) {
    const tf::Node* input = nullptr;
    ASSERT_TRUE(begin->input_node(i, &input).ok());
    inputs.insert(input->name());
  }
  EXPECT_EQ(inputs, Names({"m", "w"}));
  EXPECT_TRUE(task.Waits(begin->name(), "gradient"));
  EXPECT_TRUE(task.Waits(begin->name(), "read"));
  EXPECT_TRUE(task.Waits("update", begin->name()));
}

TEST(SharingTest, AGroupIsSharedWhileEveryProgramCan) {
  Sharing sharing;
  EXPECT_EQ(sharing.Agree({{"w", "m", "step"}, {{"w", "m"}}}), Names({"w", "m"}));
  EXPECT_EQ(sharing.Agree({{"w", "v", "f"}, {{"w", "v"}, {"f"}}}),
            Names({"w", "v", "f"}));
  EXPECT_EQ(sharing.TakeStopped(), Names());
  // Writes m in another way: w, and through it v, are not shared either.
  EXPECT_EQ(sharing.Agree({{"m", "f"}, {{"f"}}}), Names({"f"}));
  EXPECT_EQ(sharing.TakeStopped(), Names({"m"}));
  EXPECT_EQ(sharing.Agree({{"w", "m", "step"}, {{"w", "m"}}}), Names());
  EXPECT_EQ(sharing.TakeStopped(), Names({"w"}));
  EXPECT_EQ(sharing.Agree({{"w", "v", "f"}, {{"w", "v"}, {"f"}}}), Names({"f"}));
  EXPECT_EQ(sharing.TakeStopped(), Names({"v"}));
}

}  // namespace
}  // namespace tensorbow
