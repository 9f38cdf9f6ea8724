// The kinds of runs of small graphs (learning, write, read), and their optimisers.
#include "cc/analysis/run_analysis.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cc/graph/op_facts.h"
#include "tests/cc/graphs.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Kind = RunAnalysis::Kind;
using Nodes = std::vector<tf::NodeDef>;

// Returns the first nodes of the graphs below: a variable w, its value, a fed x and a
// constant.
Nodes Beginning() {
  return {NodeOf("w", "VarHandleOp"), NodeOf("value", "ReadVariableOp", {"w"}),
          NodeOf("x", "Placeholder"), NodeOf("constant", "Const"),
          NodeOf("gradient", "Mul", {"value", "x"})};
}

Nodes With(const Nodes& more) {
  Nodes nodes = Beginning();
  nodes.insert(nodes.end(), more.begin(), more.end());
  return nodes;
}

// Analyses the run that executes the last node, is fed x and may train w and n.
RunAnalysis Analyse(const Nodes& nodes, std::optional<Kind> forced = std::nullopt) {
  ProgramGraph graph;
  EXPECT_TRUE(graph.Extend(GraphOf(nodes)).ok());
  RunSpec spec;
  spec.feeds = {"x:0"};
  spec.targets = {nodes.back().name()};
  RunAnalysis analysis;
  const auto run = RunGraph::Of(graph, spec);
  EXPECT_TRUE(run.ok()) << run.status();
  const absl::Status status = AnalyseRun(**run, {"w", "n"}, forced, &analysis);
  EXPECT_TRUE(status.ok()) << status;
  for (auto& [name, use] : analysis.variables) use.node = nullptr;  // graph's
  return analysis;
}

TEST(RunAnalysisTest, ComputingFromVariablesIsARead) {
  const RunAnalysis analysis = Analyse(Beginning());
  EXPECT_EQ(analysis.kind, Kind::kRead);
  EXPECT_FALSE(analysis.variables.at("w").written);
}

TEST(RunAnalysisTest, AssigningWhatDependsOnNoVariableIsAWrite) {
  for (const char* value : {"constant", "x"}) {
    const RunAnalysis analysis =
        Analyse(With({NodeOf("assign", "AssignVariableOp", {"w", value})}));
    EXPECT_EQ(analysis.kind, Kind::kWrite);
    EXPECT_TRUE(analysis.variables.at("w").written);
    EXPECT_FALSE(analysis.variables.at("w").trained);
  }
}

TEST(RunAnalysisTest, AnOptimiserOpLearns) {
  const RunAnalysis analysis = Analyse(With({NodeOf(
      "train", "ResourceApplyGradientDescent", {"w", "constant", "gradient"})}));
  EXPECT_EQ(analysis.kind, Kind::kLearning);
  EXPECT_TRUE(analysis.variables.at("w").trained);
  EXPECT_TRUE(analysis.plain_gradient_descent);
  EXPECT_FALSE(analysis.trains_alike);
  EXPECT_TRUE(analysis.learning_rates.empty()) << "it is constant";
}

TEST(RunAnalysisTest, AccumulatingLearnsIfTheOperandDependsOnAVariableAndAFeed) {
  const auto kind = [](const char* operand) {
    return Analyse(With({NodeOf("product", "Mul", {"value", "constant"}),
                         NodeOf("train", "AssignSubVariableOp", {"w", operand})}))
        .kind;
  };
  EXPECT_EQ(kind("gradient"), Kind::kLearning);
  EXPECT_EQ(kind("constant"), Kind::kWrite);
  EXPECT_EQ(kind("x"), Kind::kWrite);
  EXPECT_EQ(kind("product"), Kind::kWrite);
}

Nodes Clip(const std::string& bound) {
  return With({NodeOf("minus", "Neg", {"constant"}),
               NodeOf("shape", "Const", {},
                      {{"dtype", "type: DT_INT32"},
                       {"value",
                        "tensor { dtype: DT_INT32 tensor_shape { dim { size: "
                        "0 } } }"}}),
               NodeOf("random", "RandomUniform", {"shape"}, {{"T", "type: DT_INT32"}}),
               NodeOf("clipped", "ClipByValue", {"value", "minus", bound}),
               NodeOf("clip", "AssignVariableOp", {"w", "clipped"})});
}

TEST(RunAnalysisTest, ClippingWeightsToAConstantIsAWrite) {
  const RunAnalysis analysis = Analyse(Clip("constant"));
  EXPECT_EQ(analysis.kind, Kind::kWrite);
  EXPECT_FALSE(analysis.variables.at("w").trained);
}

TEST(RunAnalysisTest, ClippingWeightsToWhatDiffersBetweenLearnersLearns) {
  EXPECT_EQ(Analyse(Clip("x")).kind, Kind::kLearning);
  EXPECT_EQ(Analyse(Clip("random")).kind, Kind::kLearning);
}

TEST(RunAnalysisTest, AFeedReachesTheWeightsThroughAnotherVariable) {
  const auto kind = [](const char* noted) {
    return Analyse(With({NodeOf("slot", "VarHandleOp"),
                         NodeOf("note", "AssignVariableOp", {"slot", noted}),
                         NodeOf("noted", "NoOp", {"^note"}),
                         NodeOf("was", "ReadVariableOp", {"slot", "^noted"}),
                         NodeOf("sum", "Add", {"value", "was"}),
                         NodeOf("train", "AssignVariableOp", {"w", "sum"})}))
        .kind;
  };
  EXPECT_EQ(kind("x"), Kind::kLearning);
  EXPECT_EQ(kind("constant"), Kind::kWrite);
}

TEST(RunAnalysisTest, AClipInOneRunWithAnUpdateStaysLearning) {
  const RunAnalysis analysis = Analyse(With(
      {NodeOf("train", "ResourceApplyGradientDescent", {"w", "constant", "gradient"}),
       NodeOf("trained", "ReadVariableOp", {"w", "^train"}),
       NodeOf("clipped", "Minimum", {"trained", "constant"}),
       NodeOf("clip", "AssignVariableOp", {"w", "clipped"})}));
  EXPECT_EQ(analysis.kind, Kind::kLearning);
  EXPECT_TRUE(analysis.variables.at("w").trained);
}

TEST(RunAnalysisTest, AForcedLearningRunTrainsTheTrainableFloatsThatItWrites) {
  const Attributes integer = {{"dtype", "type: DT_INT64"}};
  const Nodes nodes = With(
      {NodeOf("n", "VarHandleOp", {}, integer), NodeOf("state", "VarHandleOp"),
       NodeOf("one", "Const", {},
              {{"dtype", "type: DT_INT64"},
               {"value", "tensor { dtype: DT_INT64 tensor_shape {} int64_val: 1 }"}}),
       NodeOf("assign", "AssignVariableOp", {"w", "x"}),
       NodeOf("note", "AssignVariableOp", {"state", "x"}),
       NodeOf("count", "AssignAddVariableOp", {"n", "one"}, integer),
       NodeOf("all", "NoOp", {"^assign", "^note", "^count"})});
  EXPECT_EQ(Analyse(nodes).kind, Kind::kWrite);
  const RunAnalysis analysis = Analyse(nodes, Kind::kLearning);
  EXPECT_EQ(analysis.kind, Kind::kLearning);
  EXPECT_TRUE(analysis.variables.at("w").trained);
  EXPECT_FALSE(analysis.variables.at("state").trained) << "not trainable";
  EXPECT_FALSE(analysis.variables.at("n").trained) << "an integer";
}

TEST(RunAnalysisTest, AForcedWriteTrainsNothing) {
  const RunAnalysis analysis =
      Analyse(With({NodeOf("train", "ResourceApplyGradientDescent",
                           {"w", "constant", "gradient"})}),
              Kind::kWrite);
  EXPECT_EQ(analysis.kind, Kind::kWrite);
  EXPECT_TRUE(analysis.variables.at("w").written);
  EXPECT_FALSE(analysis.variables.at("w").trained);
}

TEST(RunAnalysisTest, MomentumIsNotPlain) {
  for (const char* op : {"ResourceApplyMomentum", "ResourceApplyKerasMomentum"}) {
    const RunAnalysis analysis = Analyse(
        With({NodeOf("m", "VarHandleOp"),
              NodeOf("train", op, {"w", "m", "constant", "gradient", "constant"})}));
    EXPECT_FALSE(analysis.plain_gradient_descent);
    EXPECT_EQ(analysis.optimiser_momentum, 0.5);
  }
}

TEST(RunAnalysisTest, OneOtherOptimiserAmongOthersMakesTheRunNotPlain) {
  Nodes nodes = With({NodeOf("m", "VarHandleOp"), NodeOf("v", "VarHandleOp"),
                      NodeOf("train", "ResourceApplyAdam",
                             {"w", "m", "v", "constant", "constant", "constant",
                              "constant", "constant", "constant", "gradient"})});
  nodes.push_back(NodeOf("u", "VarHandleOp"));
  nodes.push_back(
      NodeOf("descend", "ResourceApplyGradientDescent", {"u", "constant", "gradient"}));
  nodes.push_back(NodeOf("all", "NoOp", {"^train", "^descend"}));
  EXPECT_FALSE(Analyse(nodes).plain_gradient_descent);
}

TEST(RunAnalysisTest, AnOptimiserInsideAFunctionIsSeen) {
  tf::GraphDef graph = GraphOf(
      With({NodeOf("g", "VarHandleOp"),
            NodeOf("train", "PartitionedCall", {"w", "g", "gradient"},
                   {{"Tin", "list { type: [DT_RESOURCE, DT_RESOURCE, DT_FLOAT] }"},
                    {"Tout", "list {}"},
                    {"f", "func { name: 'update' }"}})}));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(function {
             signature {
               name: "update"
               input_arg { name: "variable" type: DT_RESOURCE }
               input_arg { name: "slot" type: DT_RESOURCE }
               input_arg { name: "gradient" type: DT_FLOAT }
               is_stateful: true
             }
           })pb",
      graph.mutable_library()));
  *graph.mutable_library()->mutable_function(0)->add_node_def() =
      NodeOf("rate", "Const");
  *graph.mutable_library()->mutable_function(0)->add_node_def() =
      NodeOf("adagrad", "ResourceApplyAdagrad",
             {"variable", "slot", "rate:output:0", "gradient"});
  ProgramGraph program;
  ASSERT_TRUE(program.Extend(graph).ok());
  RunAnalysis analysis;
  const auto run = RunGraph::Of(program, {{"x:0"}, {}, {"train"}});
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(AnalyseRun(**run, {}, std::nullopt, &analysis).ok());
  EXPECT_EQ(analysis.kind, Kind::kLearning);
  EXPECT_TRUE(analysis.variables.at("w").trained);
  EXPECT_FALSE(analysis.plain_gradient_descent);
}

TEST(RunAnalysisTest, AnUpdateOfSomeRowsIsLearning) {
  const Attributes indices = {{"dtype", "type: DT_INT32"}};
  const auto analyse = [&](const tf::NodeDef& update) {
    return Analyse(With({NodeOf("s", "VarHandleOp"),
                         NodeOf("rows", "Placeholder", {}, indices), update}));
  };
  const RunAnalysis adagrad = analyse(NodeOf("train", "ResourceSparseApplyAdagrad",
                                             {"w", "s", "constant", "gradient", "rows"},
                                             {{"Tindices", "type: DT_INT32"}}));
  EXPECT_EQ(adagrad.kind, Kind::kLearning);
  EXPECT_FALSE(adagrad.plain_gradient_descent);
  const RunAnalysis scatter =
      analyse(NodeOf("train", "ResourceScatterSub", {"w", "rows", "gradient"},
                     {{"Tindices", "type: DT_INT32"}}));
  EXPECT_EQ(scatter.kind, Kind::kLearning);
  EXPECT_TRUE(scatter.plain_gradient_descent);
}

TEST(OptimiserKindTest, TensorFlowsOptimiserOpsAreSortedByName) {
  const std::set<std::string> descent = {
      "ApplyGradientDescent",
      "ApplyProximalGradientDescent",
      "ResourceApplyGradientDescent",
      "ResourceApplyProximalGradientDescent",
      "ResourceSparseApplyProximalGradientDescent",
      "SparseApplyProximalGradientDescent",
  };
  std::set<std::string> of_descent, other;
  tf::OpList ops;
  tf::OpRegistry::Global()->Export(/*include_internal=*/false, &ops);
  for (const tf::OpDef& op : ops.op()) {
    switch (FactsOf(op.name()).optimiser) {
      case OptimiserKind::kNone:
        break;
      case OptimiserKind::kGradientDescent:
        of_descent.insert(op.name());
        break;
      case OptimiserKind::kOther:
        other.insert(op.name());
        break;
    }
  }
  EXPECT_EQ(of_descent, descent);
  for (const char* name : {"Momentum", "KerasMomentum", "Adam", "AdaMax", "RMSProp",
                           "CenteredRMSProp", "Adagrad", "AdagradV2", "AdagradDA",
                           "Adadelta", "Ftrl", "FtrlV2", "PowerSign", "AddSign"}) {
    EXPECT_EQ(other.count(std::string("ResourceApply") + name), 1) << name;
  }
}

}  // namespace
}  // namespace tensorbow
