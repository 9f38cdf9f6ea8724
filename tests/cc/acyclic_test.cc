// Graphs that can be executed, and graphs that cannot.
#include "cc/graph/acyclic.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "tests/cc/tasks.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

tf::Node* Find(Task* task, const std::string& name) {
  for (tf::Node* node : task->get()->parts[0].graph->op_nodes()) {
    if (node->name() == name) return node;
  }
  return nullptr;
}

TEST(AcyclicTest, NodesThatWaitForEachOtherAreFound) {
  Task task({NodeOf("a", "Const"), NodeOf("b", "Neg", {"a"}), NodeOf("c", "Neg", {"b"}),
             NodeOf("d", "Neg", {"c"})});
  tf::Graph* const graph = task.get()->parts[0].graph.get();
  EXPECT_TRUE(CheckAcyclic(*graph).ok());
  graph->AddControlEdge(Find(&task, "c"), Find(&task, "b"));
  const absl::Status status = CheckAcyclic(*graph);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(absl::StrContains(status.message(), "'a'")) << status;
}

TEST(AcyclicTest, TheProgramsOwnNodeOfACircleIsNamed) {
  Task task({NodeOf("a", "Const"), NodeOf("b/TensorBow.average", "Neg", {"a"}),
             NodeOf("c", "Neg", {"b/TensorBow.average"}), NodeOf("d", "Neg", {"c"})});
  tf::Graph* const graph = task.get()->parts[0].graph.get();
  graph->AddControlEdge(Find(&task, "c"), Find(&task, "b/TensorBow.average"));
  const absl::Status status = CheckAcyclic(*graph);
  EXPECT_TRUE(absl::StartsWith(status.message(), "'c' waits")) << status;
}

TEST(AcyclicTest, LoopsAreNone) {
  const std::string frame = "s: 'loop'", type = "type: DT_BOOL";
  Task task({NodeOf("no", "Const", {},
                    {{"dtype", type},
                     {"value",
                      "tensor { dtype: DT_BOOL "
                      "tensor_shape {} bool_val: false }"}}),
             NodeOf("enter", "Enter", {"no"}, {{"T", type}, {"frame_name", frame}}),
             NodeOf("merge", "Merge", {"enter", "next"}, {{"T", type}, {"N", "i: 2"}}),
             NodeOf("again", "LoopCond", {"merge"}),
             NodeOf("switch", "Switch", {"merge", "again"}, {{"T", type}}),
             NodeOf("next", "NextIteration", {"switch:1"}, {{"T", type}}),
             NodeOf("exit", "Exit", {"switch"}, {{"T", type}})});
  tf::Graph* const graph = task.get()->parts[0].graph.get();
  EXPECT_TRUE(CheckAcyclic(*graph).ok()) << CheckAcyclic(*graph);
  graph->AddControlEdge(Find(&task, "exit"), Find(&task, "enter"));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckAcyclic(*graph)));
}

}  // namespace
}  // namespace tensorbow
