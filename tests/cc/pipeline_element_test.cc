// The data that runs of small graphs take from Python functions before they start.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "cc/analysis/input_element.h"
#include "cc/analysis/run_analysis.h"
#include "cc/passes/program/cut_at_element.h"
#include "tests/cc/graphs.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Names = std::vector<std::string>;

// Makes a Python function of one float that returns two.
tf::NodeDef Function(const std::string& name, const std::string& input,
                     const std::string& op = "PyFunc") {
  return NodeOf(name, op, {input},
                {{"Tin", "list { type: DT_FLOAT }"},
                 {"Tout", "list { type: DT_FLOAT type: DT_FLOAT }"}});
}

// Finds the element of the run that executes the last node, the gradient step, and is
// fed x.
absl::StatusOr<PipelineElement> Find(std::vector<tf::NodeDef> nodes,
                                     const std::string& gradient,
                                     const Names& waits_for = {}) {
  nodes.insert(nodes.begin(),
               {NodeOf("w", "VarHandleOp"), NodeOf("x", "Placeholder"),
                NodeOf("value", "ReadVariableOp", {"w"}), NodeOf("rate", "Const")});
  nodes.push_back(NodeOf("gradient", "Mul", {"value", gradient}));
  Names inputs = {"w", "rate", "gradient"};
  inputs.insert(inputs.end(), waits_for.begin(), waits_for.end());
  nodes.push_back(NodeOf("train", "ResourceApplyGradientDescent", inputs));
  ProgramGraph graph;
  EXPECT_TRUE(graph.Extend(GraphOf(nodes)).ok());
  const auto run = RunGraph::Of(graph, {{"x:0"}, {}, {"train"}});
  EXPECT_TRUE(run.ok());
  RunAnalysis analysis;
  EXPECT_TRUE(AnalyseRun(**run, {"w"}, std::nullopt, &analysis).ok());
  EXPECT_TRUE(analysis.calls_python);
  return FindPipelineElement(**run, analysis);
}

Names Taken(const std::vector<tf::NodeDef>& nodes, const std::string& gradient,
            const Names& waits_for = {}) {
  const auto element = Find(nodes, gradient, waits_for);
  EXPECT_TRUE(element.ok()) << element.status();
  return element.ok() ? element->tensors : Names{"none"};
}

TEST(PipelineElementTest, FunctionsOfFeedsAreCalledBefore) {
  EXPECT_EQ(Taken({Function("f", "x")}, "f:1"), Names{"f:1"});
}

TEST(PipelineElementTest, OfAChainOnlyTheEndIsFed) {
  EXPECT_EQ(Taken({Function("f", "x"), Function("g", "f")}, "g"), Names{"g:0"});
}

TEST(PipelineElementTest, FunctionsOfTheModelAreLeftToTheRun) {
  EXPECT_EQ(Taken({Function("f", "value")}, "f"), Names());
  EXPECT_EQ(Taken({Function("f", "value"), Function("g", "f")}, "g"), Names());
  EXPECT_EQ(Taken({Function("f", "x"), NodeOf("sum", "Add", {"f", "value"}),
                   Function("g", "sum")},
                  "g"),
            Names{"f:0"});
}

TEST(PipelineElementTest, PureFunctionsMayComeBeforeAndAreLeftToTheRun) {
  EXPECT_EQ(
      Taken({Function("pure", "x", "PyFuncStateless"), Function("f", "pure")}, "f"),
      Names{"f:0"});
  EXPECT_EQ(
      Taken({Function("f", "x"), Function("pure", "f", "PyFuncStateless")}, "pure"),
      Names{"f:0"});
}

TEST(PipelineElementTest, WhatTheRunOnlyWaitsForIsLeftToIt) {
  EXPECT_EQ(Taken({Function("f", "x")}, "x", {"^f"}), Names());
  const auto twice = Find({Function("f", "x")}, "f", {"^f"});
  EXPECT_TRUE(absl::IsFailedPrecondition(twice.status())) << twice.status();
}

}  // namespace
}  // namespace tensorbow
