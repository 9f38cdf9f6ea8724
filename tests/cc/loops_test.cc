// The passes that replace loops by their iterations, graph in and graph out.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cc/passes/loops/count_iterations.h"
#include "cc/passes/loops/function_copies.h"
#include "cc/passes/loops/merge_products.h"
#include "cc/passes/loops/unroll_loops.h"
#include "gtest/gtest.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tests/cc/graphs.h"
#include "tests/cc/tasks.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using FunctionNode = tf::FunctionDefHelper::Node;

FunctionNode Integer(const std::string& name, int value) {
  return tf::FunctionDefHelper::Const(name, value);
}

FunctionNode NodeIn(const std::string& name, const std::string& op,
                    const std::vector<std::string>& inputs,
                    tf::DataType type = tf::DT_FLOAT) {
  return {{name}, op, inputs, {{"T", type}}};
}

// i < 3, of the variables (int32 i, `second`).
tf::FunctionDef LessThanThree(const std::string& second) {
  return tf::FunctionDefHelper::Create(
      "condition", {"i: int32", second}, {"goes_on: bool"}, {},
      {Integer("three", 3),
       NodeIn("less", "Less", {"i", "three:output:0"}, tf::DT_INT32)},
      {{"goes_on", "less:z:0"}});
}

// The body i + 1, `result` of `nodes`, of the variables (int32 i, `second`).
tf::FunctionDef CountAnd(const std::string& second, std::vector<FunctionNode> nodes,
                         const std::string& result) {
  nodes.push_back(Integer("one", 1));
  nodes.push_back(NodeIn("next", "AddV2", {"i", "one:output:0"}, tf::DT_INT32));
  return tf::FunctionDefHelper::Create("body", {"i: int32", second},
                                       {"i_out: int32", "out: " + second.substr(3)}, {},
                                       nodes, {{"i_out", "next:z:0"}, {"out", result}});
}

tf::FunctionDefLibrary Library(const std::vector<tf::FunctionDef>& functions) {
  tf::FunctionDefLibrary library;
  for (const tf::FunctionDef& function : functions) *library.add_function() = function;
  return library;
}

Attributes LoopOf(const std::string& second) {
  return {{"T", "list { type: DT_INT32 type: " + second + " }"},
          {"cond", "func { name: 'condition' }"},
          {"body", "func { name: 'body' }"},
          {"output_shapes", "list {}"},
          {"parallel_iterations", "i: 10"},
          {"_lower_using_switch_merge", "b: true"}};
}

Attributes IntegerOf(const std::string& value) {
  return {
      {"dtype", "type: DT_INT32"},
      {"value", "tensor { dtype: DT_INT32 tensor_shape {} int_val: " + value + " }"}};
}

// Adds the attribute that CountIterations() gives a loop.
Attributes Counted(Attributes attributes) {
  attributes[kIterationsAttribute] = "i: 3";
  return attributes;
}

const Attributes kFirstFeed = {{"T", "type: DT_FLOAT"}, {"index", "i: 0"}};
const Attributes kResult = {{"index", "i: 0"}};

// Returns the ops of the type, by name.
std::vector<std::string> NamesOf(const Task& task, const std::string& op) {
  std::vector<std::string> names;
  for (const tf::Node* node : task.get()->parts[0].graph->op_nodes()) {
    if (node->type_string() == op) names.push_back(node->name());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns the node that "after" waits for.
std::string EndOf(const Task& task) {
  std::string end;
  for (const tf::Edge* edge : task.Find("after")->in_edges()) {
    if (edge->src()->IsOp()) end = edge->src()->name();
  }
  return end;
}

const tf::Node* InputOf(const tf::Node& node, int input) {
  const tf::Node* source = nullptr;
  EXPECT_TRUE(node.input_node(input, &source).ok());
  return source;
}

// ------------------------------------------------------------------ CountIterations

const std::vector<FunctionNode> kTanh = {NodeIn("tanh", "Tanh", {"h"})};

// A program with a loop that begins to count at `first`, and what it gives.
struct CountedProgram {
  explicit CountedProgram(const tf::NodeDef& first, const tf::FunctionDef& body) {
    tf::GraphDef graph = GraphOf({
        first,
        NodeOf("x", "Placeholder"),
        NodeOf("loop", "While", {"first", "x"}, LoopOf("DT_FLOAT")),
        NodeOf("double", "Mul", {"loop", "loop"}, {{"T", "type: DT_INT32"}}),
        NodeOf("result", "Identity", {"loop:1"}),
    });
    *graph.mutable_library() = Library({LessThanThree("h: float"), body});
    EXPECT_TRUE(program.Extend(graph).ok());
    const absl::StatusOr<bool> changed =
        CountIterations(program, {{"x:0"}, {"result:0", "double:0"}, {}}, &counted);
    EXPECT_TRUE(changed.ok()) << changed.status();
    any = changed.ok() && *changed;
  }

  ProgramGraph program, counted;
  bool any = false;
};

TEST(CountIterationsTest, CountsWhereTheNumberIsConstant) {
  const CountedProgram made(NodeOf("first", "Const", {}, IntegerOf("1")),
                            CountAnd("h: float", kTanh, "tanh:y:0"));
  ASSERT_TRUE(made.any);
  const tf::NodeDef& loop = *made.counted.Find("loop");
  EXPECT_EQ(loop.attr().at(kIterationsAttribute).i(), 2);
  EXPECT_FALSE(loop.attr().contains("_lower_using_switch_merge"));
  const tf::NodeDef* const last =
      made.counted.Find(ParseTensor(made.counted.Find("double")->input(0)).node);
  ASSERT_EQ(last->op(), "Const");
  EXPECT_EQ(last->attr().at("value").tensor().int_val(0), 3);
}

TEST(CountIterationsTest, LeavesALoopThatBeginsAtAFeed) {
  const CountedProgram made(
      NodeOf("first", "Placeholder", {}, {{"dtype", "type: DT_INT32"}}),
      CountAnd("h: float", kTanh, "tanh:y:0"));
  EXPECT_FALSE(made.any);
}

TEST(CountIterationsTest, LeavesALoopWithASideEffect) {
  const CountedProgram made(NodeOf("first", "Const", {}, IntegerOf("0")),
                            CountAnd("h: float",
                                     {Integer("shape", 2),
                                      {{"draw"},
                                       "RandomPoisson",
                                       {"shape:output:0", "h"},
                                       {{"S", tf::DT_INT32}, {"dtype", tf::DT_FLOAT}}}},
                                     "draw:output:0"));
  EXPECT_FALSE(made.any);
}

Attributes EnterOf(const std::string& type, bool is_constant) {
  return {{"T", "type: " + type},
          {"frame_name", "s: 'loop'"},
          {"is_constant", is_constant ? "b: true" : "b: false"}};
}

// A loop of TensorFlow 1 that pushes its three values onto a stack, and `other` ops.
tf::GraphDef LoopWithStack(const std::vector<tf::NodeDef>& other) {
  const Attributes integer = {{"T", "type: DT_INT32"}};
  const Attributes two_integers = {{"T", "type: DT_INT32"}, {"N", "i: 2"}};
  std::vector<tf::NodeDef> nodes = {
      NodeOf("x", "Placeholder"),
      NodeOf("first", "Const", {}, IntegerOf("0")),
      NodeOf("one", "Const", {}, IntegerOf("1")),
      NodeOf("three", "Const", {}, IntegerOf("3")),
      NodeOf("stack", "StackV2", {"three"}, {{"elem_type", "type: DT_FLOAT"}}),
      NodeOf("enter_i", "Enter", {"first"}, EnterOf("DT_INT32", false)),
      NodeOf("enter_h", "Enter", {"x"}, EnterOf("DT_FLOAT", false)),
      NodeOf("enter_one", "Enter", {"one"}, EnterOf("DT_INT32", true)),
      NodeOf("enter_three", "Enter", {"three"}, EnterOf("DT_INT32", true)),
      NodeOf("enter_stack", "Enter", {"stack"}, EnterOf("DT_RESOURCE", true)),
      NodeOf("i", "Merge", {"enter_i", "next_i"}, two_integers),
      NodeOf("h", "Merge", {"enter_h", "next_h"}, {{"N", "i: 2"}}),
      NodeOf("less", "Less", {"i", "enter_three"}, integer),
      NodeOf("goes_on", "LoopCond", {"less"}),
      NodeOf("switch_i", "Switch", {"i", "goes_on"}, integer),
      NodeOf("switch_h", "Switch", {"h", "goes_on"}),
      NodeOf("tanh", "Tanh", {"switch_h:1"}),
      NodeOf("push", "StackPushV2", {"enter_stack", "tanh"}),
      NodeOf("add", "AddV2", {"switch_i:1", "enter_one", "^push"}, integer),
      NodeOf("next_i", "NextIteration", {"add"}, integer),
      NodeOf("next_h", "NextIteration", {"tanh"}),
      NodeOf("exit_h", "Exit", {"switch_h"}),
      NodeOf("result", "Identity", {"exit_h"}),
  };
  nodes.insert(nodes.end(), other.begin(), other.end());
  return GraphOf(nodes);
}

TEST(CountIterationsTest, CountsTheIterationsOfTensorFlow1sLoops) {
  ProgramGraph program, counted;
  ASSERT_TRUE(program.Extend(LoopWithStack({})).ok());
  const absl::StatusOr<bool> changed =
      CountIterations(program, {{"x:0"}, {"result:0", "exit_h:0"}, {}}, &counted);
  ASSERT_TRUE(changed.ok() && *changed) << changed.status();
  ASSERT_NE(counted.Find("exit_h"), nullptr);
  const tf::NodeDef* const loop =
      counted.Find(ParseTensor(counted.Find("exit_h")->input(0)).node);
  ASSERT_EQ(loop->op(), "While");
  EXPECT_EQ(loop->attr().at(kIterationsAttribute).i(), 3);
}

TEST(CountIterationsTest, LeavesALoopWhoseStackIsUsedOutside) {
  ProgramGraph program, counted;
  const tf::NodeDef pop = NodeOf("pop", "StackPopV2", {"stack", "^exit_h"},
                                 {{"elem_type", "type: DT_FLOAT"}});
  ASSERT_TRUE(program.Extend(LoopWithStack({pop})).ok());
  const absl::StatusOr<bool> changed =
      CountIterations(program, {{"x:0"}, {"result:0", "pop:0"}, {}}, &counted);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE(*changed);
}

// ------------------------------------------------------------------ UnrollLoops

TEST(UnrollLoopsTest, ReplacesALoopByItsIterations) {
  Task task(
      {NodeOf("x", "_Arg", {}, kFirstFeed),
       NodeOf("first", "Const", {}, IntegerOf("0")), NodeOf("before", "NoOp"),
       NodeOf("loop", "While", {"first", "x", "^before"}, Counted(LoopOf("DT_FLOAT"))),
       NodeOf("after", "NoOp", {"^loop"}),
       NodeOf("result", "_Retval", {"loop:1"}, kResult)},
      Library({LessThanThree("h: float"), CountAnd("h: float", kTanh, "tanh:y:0")}));
  const absl::StatusOr<bool> unrolled = UnrollLoops(true, task.get());
  ASSERT_TRUE(unrolled.ok() && *unrolled) << unrolled.status();
  EXPECT_EQ(task.Find("loop"), nullptr);
  const tf::Node* node = InputOf(*task.Find("result"), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(node->type_string(), "Tanh");
    EXPECT_EQ(node->assigned_device_name(), task.Find("x")->assigned_device_name());
    node = InputOf(*node, 0);
  }
  EXPECT_EQ(node->name(), "x");
  const std::string end = EndOf(task);
  EXPECT_TRUE(task.Waits(end, "before"));
  EXPECT_TRUE(task.Waits(end, InputOf(*task.Find("result"), 0)->name()));
}

TEST(UnrollLoopsTest, ReadsAVariableOnceAndWhenTheLoopWouldBegin) {
  Task task(
      {NodeOf("variable", "VarHandleOp"), NodeOf("before", "NoOp"),
       NodeOf("first", "Const", {}, IntegerOf("0")),
       NodeOf("loop", "While", {"first", "variable", "^before"},
              Counted(LoopOf("DT_RESOURCE"))),
       NodeOf("x", "_Arg", {}, kFirstFeed), NodeOf("unused", "Identity", {"x"}),
       NodeOf("after", "NoOp", {"^loop"})},
      Library({LessThanThree("h: resource"),
               CountAnd("h: resource",
                        {{{"read"}, "ReadVariableOp", {"h"}, {{"dtype", tf::DT_FLOAT}}},
                         NodeIn("tanh", "Tanh", {"read:value:0"})},
                        "h")}));
  const absl::StatusOr<bool> unrolled = UnrollLoops(true, task.get());
  ASSERT_TRUE(unrolled.ok() && *unrolled) << unrolled.status();
  const std::vector<std::string> reads = NamesOf(task, "ReadVariableOp");
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_TRUE(task.Waits(reads[0], "before"));
  EXPECT_TRUE(task.Waits(EndOf(task), reads[0]));
}

TEST(UnrollLoopsTest, ReplacesTheElementsOfListsByPlainTensors) {
  const FunctionNode item = {{"item"},
                             "TensorListGetItem",
                             {"rows", "i", "shape:output:0"},
                             {{"element_dtype", tf::DT_FLOAT}}};
  const FunctionNode tanh = NodeIn("tanh", "Tanh", {"item:item:0"});
  const FunctionNode set = {{"set"},
                            "TensorListSetItem",
                            {"rows", "i", "tanh:y:0"},
                            {{"element_dtype", tf::DT_FLOAT}}};
  const Attributes element = {{"element_dtype", "type: DT_FLOAT"},
                              {"shape_type", "type: DT_INT32"}};
  Attributes shape = IntegerOf("3"), feed = kFirstFeed;
  feed["_output_shapes"] = "list { shape { dim { size: 3 } dim { size: -1 } } }";
  Task task(
      {NodeOf("x", "_Arg", {}, feed), NodeOf("shape", "Const", {}, IntegerOf("-1")),
       NodeOf("first", "Const", {}, IntegerOf("0")),
       NodeOf("list", "TensorListFromTensor", {"x", "shape"}, element),
       NodeOf("loop", "StatelessWhile", {"first", "list"},
              Counted(LoopOf("DT_VARIANT"))),
       NodeOf("all", "TensorListStack", {"loop:1", "shape"}, element),
       NodeOf("result", "_Retval", {"all"}, kResult)},
      Library({LessThanThree("rows: variant"),
               tf::FunctionDefHelper::Create(
                   "body", {"i: int32", "rows: variant"},
                   {"i_out: int32", "out: variant"}, {},
                   {Integer("shape", -1), item, tanh, set, Integer("one", 1),
                    NodeIn("next", "AddV2", {"i", "one:output:0"}, tf::DT_INT32)},
                   {{"i_out", "next:z:0"}, {"out", "set:output_handle:0"}})}));
  const absl::StatusOr<bool> unrolled = UnrollLoops(true, task.get());
  ASSERT_TRUE(unrolled.ok() && *unrolled) << unrolled.status();
  const tf::Node* const all = InputOf(*task.Find("result"), 0);
  ASSERT_EQ(all->type_string(), "Pack");
  for (int i = 0; i < 3; ++i) {
    const tf::Edge* row = nullptr;
    ASSERT_EQ(InputOf(*all, i)->type_string(), "Tanh");
    ASSERT_TRUE(InputOf(*all, i)->input_edge(0, &row).ok());
    EXPECT_EQ(row->src()->type_string(), "Unpack");
    EXPECT_EQ(row->src_output(), i);
  }
  EXPECT_TRUE(NamesOf(task, "TensorListSetItem").empty());
}

TEST(UnrollLoopsTest, ReplacesTheElementsOfTensorArraysByPlainTensors) {
  Attributes places = {{"dtype", "type: DT_INT32"},
                       {"value",
                        "tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } "
                        "int_val: [0, 1] }"}};
  Attributes feed = kFirstFeed;
  feed["_output_shapes"] = "list { shape { dim { size: 2 } dim { size: -1 } } }";
  const Attributes named = {{"source", "s: 'gradients'"}};
  const auto result = [](int i) -> Attributes {
    return {{"index", "i: " + std::to_string(i)}};
  };
  Task task(
      {NodeOf("x", "_Arg", {}, feed), NodeOf("zero", "Const", {}, IntegerOf("0")),
       NodeOf("one", "Const", {}, IntegerOf("1")),
       NodeOf("two", "Const", {}, IntegerOf("2")),
       NodeOf("places", "Const", {}, places),
       NodeOf("loop", "StatelessWhile", {"zero", "x"}, Counted(LoopOf("DT_FLOAT"))),
       NodeOf("array", "TensorArrayV3", {"two"}),
       NodeOf("rows", "TensorArrayScatterV3", {"array", "places", "x", "array:1"}),
       NodeOf("row", "TensorArrayReadV3", {"array", "one", "rows"}),
       // Three writes to the gradients, on flows that meet, which count once each.
       NodeOf("gradients", "TensorArrayGradV3", {"array", "rows"}, named),
       NodeOf("g", "Tanh", {"row"}), NodeOf("h", "Sigmoid", {"row"}),
       NodeOf("write", "TensorArrayWriteV3", {"gradients", "one", "g", "rows"}),
       NodeOf("again", "TensorArrayGradV3", {"array", "rows"}, named),
       NodeOf("writes", "TensorArrayWriteV3", {"again", "one", "h", "write"}),
       NodeOf("more", "TensorArrayWriteV3", {"again", "one", "h", "rows"}),
       NodeOf("sum", "AddN", {"write", "writes", "more"}, {{"N", "i: 3"}}),
       NodeOf("gradient", "TensorArrayReadV3", {"again", "one", "sum"}),
       NodeOf("nothing", "TensorArrayReadV3", {"gradients", "zero", "sum"}),
       NodeOf("row_out", "_Retval", {"row"}, result(0)),
       NodeOf("gradient_out", "_Retval", {"gradient"}, result(1)),
       NodeOf("nothing_out", "_Retval", {"nothing"}, result(2)),
       NodeOf("loop_out", "_Retval", {"loop:1"}, result(3))},
      Library({LessThanThree("h: float"), CountAnd("h: float", kTanh, "tanh:y:0")}));
  const absl::StatusOr<bool> unrolled = UnrollLoops(true, task.get());
  ASSERT_TRUE(unrolled.ok() && *unrolled) << unrolled.status();
  const tf::Edge* row = nullptr;
  ASSERT_TRUE(task.Find("row_out")->input_edge(0, &row).ok());
  EXPECT_EQ(row->src()->type_string(), "Unpack");
  EXPECT_EQ(row->src_output(), 1);
  const tf::Node* const gradient = InputOf(*task.Find("gradient_out"), 0);
  ASSERT_EQ(gradient->type_string(), "AddN");
  ASSERT_EQ(gradient->num_inputs(), 3);
  EXPECT_EQ(InputOf(*gradient, 0)->name(), "g");
  EXPECT_EQ(InputOf(*gradient, 1)->name(), "h");
  EXPECT_EQ(InputOf(*gradient, 2)->name(), "h");
  EXPECT_EQ(InputOf(*task.Find("nothing_out"), 0)->type_string(), "ZerosLike");
  EXPECT_TRUE(NamesOf(task, "TensorArrayV3").empty());
}

// The gradient of y of h · y, for a y of another shape or of the same.
tf::FunctionDef GradientOfProduct(const std::string& y) {
  return CountAnd(
      "h: float",
      {NodeIn("same", "Tanh", {"h"}),
       Integer("axis", 0),
       {{"largest"},
        "Max",
        {"h", "axis:output:0"},
        {{"T", tf::DT_FLOAT}, {"keep_dims", true}}},
       NodeIn("product", "Mul", {"h", y}),
       NodeIn("shape", "Shape", {"h"}),
       NodeIn("shape_y", "Shape", {y}),
       {{"axes"}, "BroadcastGradientArgs", {"shape:output:0", "shape_y:output:0"}, {}},
       {{"sum"}, "Sum", {"product:z:0", "axes:r1:0"}, {{"T", tf::DT_FLOAT}}},
       NodeIn("gradient", "Reshape", {"sum:output:0", "shape_y:output:0"}),
       NodeIn("more", "AddV2", {"gradient:output:0", "h"})},
      "more:z:0");
}

TEST(UnrollLoopsTest, LeavesOutSumsWhereNothingWasBroadcast) {
  for (const bool same : {true, false}) {
    Attributes feed = kFirstFeed;
    feed["_output_shapes"] = "list { shape { dim { size: -1 } dim { size: 2 } } }";
    Task task(
        {NodeOf("x", "_Arg", {}, feed), NodeOf("first", "Const", {}, IntegerOf("0")),
         NodeOf("loop", "StatelessWhile", {"first", "x"}, Counted(LoopOf("DT_FLOAT"))),
         NodeOf("result", "_Retval", {"loop:1"}, kResult)},
        Library({LessThanThree("h: float"),
                 GradientOfProduct(same ? "same:y:0" : "largest:output:0")}));
    const absl::StatusOr<bool> unrolled = UnrollLoops(true, task.get());
    ASSERT_TRUE(unrolled.ok() && *unrolled) << unrolled.status();
    EXPECT_EQ(NamesOf(task, "Mul").size(), 3u);
    EXPECT_EQ(NamesOf(task, "Sum").size(), same ? 0u : 3u);
    EXPECT_EQ(NamesOf(task, "Reshape").size(), same ? 0u : 3u);
    EXPECT_EQ(NamesOf(task, "Shape").size() > 0, !same);
  }
}

// ------------------------------------------------------------------ MergeProducts

// The sum of `terms` products, and of as many sums over rows, one after the other.
Task SumsOfTerms(int terms) {
  Attributes first = {{"dtype", "type: DT_INT32"},
                      {"value",
                       "tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } "
                       "int_val: 0 }"}};
  const Attributes transposed = {{"transpose_a", "b: true"}}, two = {{"N", "i: 2"}};
  std::vector<tf::NodeDef> nodes = {NodeOf("x", "_Arg", {}, kFirstFeed),
                                    NodeOf("axes", "Const", {}, first)};
  std::string product = "x", sum = "x";
  for (int i = 0; i < terms; ++i) {
    const std::string k = std::to_string(i);
    nodes.push_back(NodeOf("a" + k, "Tanh", {"x"}));
    nodes.push_back(NodeOf("b" + k, "Sigmoid", {"x"}));
    nodes.push_back(NodeOf("product" + k, "MatMul", {"a" + k, "b" + k}, transposed));
    nodes.push_back(NodeOf("rows" + k, "Sum", {"b" + k, "axes"}));
    nodes.push_back(NodeOf("products" + k, "AddN", {product, "product" + k}, two));
    nodes.push_back(NodeOf("sums" + k, "AddN", {sum, "rows" + k}, two));
    product = "products" + k;
    sum = "sums" + k;
  }
  nodes.push_back(NodeOf("result", "_Retval", {product}, kResult));
  nodes.push_back(NodeOf("second", "_Retval", {sum}, {{"index", "i: 1"}}));
  return Task(nodes);
}

TEST(MergeProductsTest, ComputesOneProductAndOneSum) {
  Task task = SumsOfTerms(5);
  tf::Graph* const graph = task.get()->parts[0].graph.get();
  const absl::StatusOr<bool> merged = MergeProducts({}, KnownValues(graph), graph);
  ASSERT_TRUE(merged.ok() && *merged) << merged.status();
  for (const auto& [result, op] : std::vector<std::pair<std::string, std::string>>{
           {"result", "MatMul"}, {"second", "Sum"}}) {
    const tf::Node* const all = InputOf(*task.Find(result), 0);
    ASSERT_EQ(all->type_string(), "AddN");
    ASSERT_EQ(all->num_inputs(), 2);
    EXPECT_EQ(InputOf(*all, 0)->name(), "x");
    const tf::Node* const merged_term = InputOf(*all, 1);
    ASSERT_EQ(merged_term->type_string(), op);
    const tf::Node* const rows = InputOf(*merged_term, 0);
    ASSERT_EQ(rows->type_string(), "ConcatV2");
    ASSERT_EQ(rows->num_inputs(), 6);
    std::vector<std::string> names;
    for (int i = 0; i < 5; ++i) names.push_back(InputOf(*rows, i)->name());
    const std::string side = op == "MatMul" ? "a" : "b";
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, std::vector<std::string>(
                         {side + "0", side + "1", side + "2", side + "3", side + "4"}));
  }
  const tf::Node* const product = InputOf(*InputOf(*task.Find("result"), 0), 1);
  for (int i = 0; i < 5; ++i) {  // the same order on both sides
    EXPECT_EQ(InputOf(*InputOf(*product, 0), i)->name().substr(1),
              InputOf(*InputOf(*product, 1), i)->name().substr(1));
  }
}

TEST(MergeProductsTest, LeavesFewTerms) {
  Task task = SumsOfTerms(3);
  tf::Graph* const graph = task.get()->parts[0].graph.get();
  const absl::StatusOr<bool> merged = MergeProducts({}, KnownValues(graph), graph);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_FALSE(*merged);
}

TEST(MergeProductsTest, LeavesProductsThatOthersTake) {
  Task task = SumsOfTerms(5);
  tf::Graph* const graph = task.get()->parts[0].graph.get();
  for (int i = 0; i < 2; ++i) {
    tf::Node* const product =
        const_cast<tf::Node*>(task.Find("product" + std::to_string(i)));
    graph->AddControlEdge(product, const_cast<tf::Node*>(task.Find("second")));
  }
  ASSERT_TRUE(MergeProducts({}, KnownValues(graph), graph).ok());
  EXPECT_EQ(InputOf(*task.Find("result"), 0)->name(), "products4");
}

}  // namespace
}  // namespace tensorbow
