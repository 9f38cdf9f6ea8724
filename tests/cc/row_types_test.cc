// The laws of row types on graphs of a few nodes. Expected types are derived by hand
// from the definition in types.h: learner k holds n_k of N rows, r = N/n_k.
#include "cc/analysis/row_types/row_types.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/cc/graphs.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Names = std::vector<std::string>;

const char kFloats[] = "type: DT_FLOAT";
const char kInts[] = "type: DT_INT32";

std::string ShapeText(const std::vector<int>& sizes) {
  std::string text = "shape { ";
  for (int size : sizes) absl::StrAppend(&text, "dim { size: ", size, " } ");
  return text + "}";
}

tf::NodeDef Feed(const std::string& name, const std::vector<int>& shape) {
  return NodeOf(name, "Placeholder", {}, {{"shape", ShapeText(shape)}});
}

tf::NodeDef Ints(const std::string& name, const std::vector<int>& values) {
  return NodeOf(name, "Const", {},
                {{"dtype", kInts},
                 {"value", absl::StrCat("tensor { dtype: DT_INT32 tensor_shape { dim { "
                                        "size: ",
                                        values.size(), " } } int_val: ",
                                        absl::StrJoin(values, " int_val: "), " }")}});
}

// x, [rows, 3], and y, [rows, 3], are divided; w, [3], and s, a scalar, are not.
class RowTypesTest : public ::testing::Test {
 protected:
  RowTypesTest() {
    for (const auto& [name, shape] : std::map<std::string, std::vector<int>>{
             {"x", {-1, 3}}, {"y", {-1, 3}}, {"w", {3}}, {"s", {}}}) {
      nodes_.push_back(Feed(name, shape));
      spec_.feeds.push_back(name + ":0");
      rows_.feeds.push_back({name + ":0", name == "x" || name == "y", std::nullopt});
    }
    nodes_.push_back(Ints("first", {0}));
    nodes_.push_back(Ints("last", {1}));
    nodes_.push_back(Ints("both", {0, 1}));
  }

  void Add(const std::string& name, const std::string& op,
           const std::vector<std::string>& inputs, const Attributes& attributes = {}) {
    nodes_.push_back(NodeOf(name, op, inputs, attributes));
    spec_.fetches.push_back(name + ":0");
  }
  void Add(tf::NodeDef node) { nodes_.push_back(std::move(node)); }

  // Adds the number of rows as a number.
  void AddNumberOfRows() {
    Add("shape", "Shape", {"x"});
    Add("n", "GatherV2", {"shape", "first", "axis"},
        {{"Tparams", kInts}, {"Tindices", kInts}, {"Taxis", kInts}});
    Add(NodeOf("axis", "Const", {},
               {{"dtype", kInts},
                {"value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 }"}}));
    Add("count", "Cast", {"n"}, {{"SrcT", kInts}});
  }

  const RowTypes& Typed() {
    ProgramGraph program;
    EXPECT_TRUE(program.Extend(GraphOf(nodes_)).ok());
    auto typed = TypeRows(program, spec_, {"v"}, rows_, gathers_);
    EXPECT_TRUE(typed.ok()) << typed.status();
    typed_ = std::move(*typed);
    return typed_;
  }
  std::string TypeOf(const std::string& node) { return Typed().Describe(node + ":0"); }

  // Returns "node/input by exponent" of every rescale.
  std::vector<std::string> Rescales() {
    std::vector<std::string> found;
    for (const RowNeed& need : Typed().needs) {
      if (need.kind != RowNeed::Kind::kRescale) continue;
      found.push_back(absl::StrCat(need.node, "/", need.input, " by ", need.exponent));
    }
    return found;
  }

  std::vector<tf::NodeDef> nodes_;
  RunSpec spec_;
  RowsOfRun rows_;
  bool gathers_ = false;
  RowTypes typed_;
};

// Returns "node/input" of every need of the kind.
Names NeedsOf(const RowTypes& types, RowNeed::Kind kind) {
  Names found;
  for (const RowNeed& need : types.needs) {
    if (need.kind == kind) found.push_back(absl::StrCat(need.node, "/", need.input));
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST_F(RowTypesTest, RowsStayRowsElementByElement) {
  Add("tanh", "Tanh", {"x"});
  Add("sum", "AddV2", {"tanh", "w"});
  EXPECT_EQ(TypeOf("sum"), "rows on axis 0");
  EXPECT_EQ(Typed().exchanges, Names());
}

// v = Σ v_k.
TEST_F(RowTypesTest, ASumOverRowsIsTheSumOfTheLearnersSums) {
  Add("sum", "Sum", {"x", "both"});
  EXPECT_EQ(TypeOf("sum"), "sum over rows");
}

// PyTorch #162692: v = Σ n_k/N · v_k, even if the n_k differ; not their plain mean.
TEST_F(RowTypesTest, AMeanOfUnevenShardsIsWeighted) {
  Add("mean", "Mean", {"x", "both"});
  EXPECT_EQ(TypeOf("mean"), "mean over rows");
}

TEST_F(RowTypesTest, AReductionOfOtherAxesKeepsRows) {
  Add("mean", "Mean", {"x", "last"});
  EXPECT_EQ(TypeOf("mean"), "rows on axis 0");
}

// PyTorch #149768: with e = 1 a scalar counts once, since Σ n_k/N = 1.
TEST_F(RowTypesTest, AScalarAddedToAMeanIsCountedOnce) {
  Add("mean", "Mean", {"x", "both"});
  Add("more", "AddV2", {"mean", "s"});
  EXPECT_EQ(TypeOf("more"), "mean over rows");
  EXPECT_EQ(Rescales(), Names());
}

// s is also a sum with e = 1: so the sum must have e = 1, too, and Σ r^-1·s = s.
TEST_F(RowTypesTest, AScalarAddedToASumIsCountedOnce) {
  Add("sum", "Sum", {"x", "both"});
  Add("more", "AddV2", {"sum", "s"});
  EXPECT_EQ(TypeOf("more"), "mean over rows");
  EXPECT_EQ(Rescales(), (Names{"more/0 by -1"}));
}

TEST_F(RowTypesTest, AMeanAndASumAddAfterARescale) {
  Add("mean", "Mean", {"x", "both"});
  Add("sum", "Sum", {"y", "both"});
  Add("loss", "AddV2", {"mean", "sum"});
  EXPECT_EQ(TypeOf("loss"), "mean over rows");
  EXPECT_EQ(Rescales(), (Names{"loss/1 by -1"}));
}

TEST_F(RowTypesTest, ProductsWithWhatIsTheSameKeepASum) {
  Add("mean", "Mean", {"x", "both"});
  Add("half", "Mul", {"mean", "s"});
  Add("less", "RealDiv", {"half", "s"});
  EXPECT_EQ(TypeOf("less"), "mean over rows");
  EXPECT_EQ(Typed().exchanges, Names());
}

TEST_F(RowTypesTest, TheProductOfTwoMeansIsThatOfTheWholes) {
  Add("a", "Mean", {"x", "both"});
  Add("b", "Mean", {"y", "both"});
  Add("product", "Mul", {"a", "b"});
  EXPECT_EQ(TypeOf("product"), "same on all learners");
  EXPECT_EQ(Typed().exchanges, (Names{"a:0", "b:0"}));
}

TEST_F(RowTypesTest, WhatIsNotLinearNeedsTheWhole) {
  Add("mean", "Mean", {"x", "both"});
  Add("root", "Sqrt", {"mean"});
  EXPECT_EQ(TypeOf("root"), "same on all learners");
  EXPECT_EQ(Typed().exchanges, (Names{"mean:0"}));
}

TEST_F(RowTypesTest, AMeanBesideRowsIsTheWholes) {
  Add("mean", "Mean", {"x", "first"});
  Add("centred", "Sub", {"x", "mean"});
  EXPECT_EQ(TypeOf("centred"), "rows on axis 0");
  EXPECT_EQ(Typed().exchanges, (Names{"mean:0"}));
}

// PyTorch #165962: max(max_k, s) needs the maximum of all first if it is scaled next.
TEST_F(RowTypesTest, AMaximumIsExchangedBeforeItIsUsed) {
  Add("max", "Max", {"x", "both"});
  Add("times", "Mul", {"max", "s"});
  EXPECT_EQ(TypeOf("max"), "maximum over rows");
  EXPECT_EQ(TypeOf("times"), "same on all learners");
  EXPECT_EQ(Typed().exchanges, (Names{"max:0"}));
}

TEST_F(RowTypesTest, AMeanIsExchangedBeforeItIsClipped) {
  Add("mean", "Mean", {"x", "both"});
  Add("clipped", "ClipByValue", {"mean", "s", "s"});
  EXPECT_EQ(TypeOf("clipped"), "same on all learners");
  EXPECT_EQ(Typed().exchanges, (Names{"mean:0"}));
}

TEST_F(RowTypesTest, AnExchangeIsAsEarlyAsItIsSmallest) {
  Add("mean", "Mean", {"x", "both"});
  Add("half", "Mul", {"mean", "s"});
  Add("square", "Square", {"half"});
  EXPECT_EQ(Typed().exchanges, (Names{"mean:0"}));
}

// n_k = N · r^-1.
TEST_F(RowTypesTest, TheNumberOfRowsIsAScaledValue) {
  AddNumberOfRows();
  EXPECT_EQ(TypeOf("count"), "same on all learners, scaled by r^-1");
}

// Σ_k / n_k = Σ_k · r/N: a mean.
TEST_F(RowTypesTest, ASumByTheNumberOfRowsIsAMean) {
  AddNumberOfRows();
  Add("sum", "Sum", {"x", "both"});
  Add("mean", "RealDiv", {"sum", "count"});
  EXPECT_EQ(TypeOf("mean"), "mean over rows");
  EXPECT_EQ(Rescales(), Names());
}

TEST_F(RowTypesTest, ARootOfTheNumberOfRowsIsThatOfAll) {
  AddNumberOfRows();
  Add("log", "Log", {"count"});
  EXPECT_EQ(TypeOf("log"), "same on all learners");
  EXPECT_EQ(Rescales(), (Names{"log/0 by -1"}));
}

TEST_F(RowTypesTest, AContractionOverRowsIsASum) {
  Add("product", "MatMul", {"x", "y"}, {{"transpose_a", "b: true"}});
  EXPECT_EQ(TypeOf("product"), "sum over rows");
}

TEST_F(RowTypesTest, EveryRowWithEveryOtherIsUnknown) {
  Add("gram", "MatMul", {"x", "y"}, {{"transpose_b", "b: true"}});
  EXPECT_TRUE(absl::StrContains(TypeOf("gram"), "combines every row with every other"))
      << TypeOf("gram");
}

// First y, x of all rows; then a learner's own rows beside the result.
TEST_F(RowTypesTest, AnOpThatMixesRowsTakesAllOfThem) {
  gathers_ = true;
  Add("gram", "MatMul", {"x", "y"}, {{"transpose_b", "b: true"}});
  Add("back", "MatMul", {"gram", "x"});
  Add("scaled", "Mul", {"back", "x"});
  EXPECT_EQ(TypeOf("gram"), "same on all learners");
  EXPECT_EQ(TypeOf("back"), "same on all learners");
  EXPECT_EQ(TypeOf("scaled"), "rows on axis 0");
  EXPECT_EQ(NeedsOf(Typed(), RowNeed::Kind::kAllRows),
            (Names{"back/1", "gram/0", "gram/1"}));
  EXPECT_EQ(NeedsOf(Typed(), RowNeed::Kind::kOwnRows), (Names{"scaled/0"}));
}

TEST_F(RowTypesTest, WeightsAreNotMultipliedByAllRowsOnEveryLearner) {
  gathers_ = true;
  Add(NodeOf("k", "Const", {},
             {{"dtype", kInts},
              {"value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 }"}}));
  Add("cumulated", "Cumsum", {"x", "k"});
  Add(Feed("weights", {3, 3}));
  spec_.feeds.push_back("weights:0");
  rows_.feeds.push_back({"weights:0", false, std::nullopt});
  Add("product", "MatMul", {"cumulated", "weights"});
  ASSERT_NE(Typed().unknown, nullptr);
  EXPECT_EQ(Typed().unknown->node, "product");
}

TEST_F(RowTypesTest, AlongTheRowsIsUnknownAndAlongOthersIsNot) {
  Add(NodeOf("k", "Const", {},
             {{"dtype", kInts},
              {"value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 }"}}));
  Add("cumulated", "Cumsum", {"x", "k"});
  Add("chosen", "Softmax", {"x"});
  EXPECT_TRUE(absl::StrContains(TypeOf("cumulated"), "works along the rows"))
      << TypeOf("cumulated");
  EXPECT_EQ(TypeOf("chosen"), "rows on axis 0");
}

TEST_F(RowTypesTest, TransposedRowsAreOnTheOtherAxis) {
  Add(Ints("order", {1, 0}));
  Add("transposed", "Transpose", {"x", "order"});
  Add("sum", "Sum", {"transposed", "last"});
  EXPECT_EQ(TypeOf("transposed"), "rows on axis 1");
  EXPECT_EQ(TypeOf("sum"), "sum over rows");
}

// Learners have 12/r rows: a tensor that is the same has no such shape.
TEST_F(RowTypesTest, RowsAgainstAConstantOfAsManyAreUnknown) {
  Add(Feed("twelve", {12, 3}));
  spec_.feeds.push_back("twelve:0");
  rows_.feeds.push_back({"twelve:0", false, std::nullopt});
  Add("sum", "AddV2", {"x", "twelve"});
  EXPECT_TRUE(
      absl::StrContains(TypeOf("sum"), "combines rows with a constant of size 12"))
      << TypeOf("sum");
}

TEST_F(RowTypesTest, RowsBesideZerosOfAsManyAreUnknown) {
  Add(NodeOf("zeros", "Const", {},
             {{"value",
               "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 12 } dim { "
               "size: 2 } } float_val: 0 }"}}));
  Add(NodeOf("k", "Const", {},
             {{"dtype", kInts},
              {"value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 }"}}));
  Add("both_of", "ConcatV2", {"x", "zeros", "k"}, {{"N", "i: 2"}});
  EXPECT_TRUE(
      absl::StrContains(TypeOf("both_of"), "a constant that has as many elements"));
}

// A tensor of unknown shape that is filled may have rows.
TEST_F(RowTypesTest, UnknownSizesAreNotTakenForTheSame) {
  Add("shape", "Shape", {"unranked"});
  Add(NodeOf("unranked", "Placeholder", {},
             {{"shape", "shape { unknown_rank: true }"}}));
  spec_.feeds.push_back("unranked:0");
  rows_.feeds.push_back({"unranked:0", true, std::nullopt});
  Add("filled", "Fill", {"shape", "s"}, {{"index_type", kInts}});
  EXPECT_TRUE(absl::StrContains(TypeOf("filled"), "unknown")) << TypeOf("filled");
}

TEST_F(RowTypesTest, NoiseOnRowsIsEachLearnersAndOnOthersCommon) {
  Add("shape", "Shape", {"x"});
  Add("of_rows", "RandomStandardNormal", {"shape"}, {{"T", kInts}, {"dtype", kFloats}});
  Add(Ints("three", {3}));
  Add("of_weights", "RandomStandardNormal", {"three"},
      {{"T", kInts}, {"dtype", kFloats}});
  EXPECT_EQ(TypeOf("of_rows"), "rows on axis 0");
  EXPECT_EQ(TypeOf("of_weights"), "same on all learners");
  std::vector<std::string> draws;
  for (const RowNeed& need : Typed().needs) {
    if (need.kind == RowNeed::Kind::kDraw) draws.push_back(need.node);
  }
  EXPECT_EQ(draws, (Names{"of_weights"}));
}

// The trained variable gets Σ r^-1 · v_k, the result of averaging by rows.
TEST_F(RowTypesTest, AGradientIsWrittenAsAMean) {
  Add(NodeOf("v", "VarHandleOp", {}, {{"shape", "shape { dim { size: 3 } }"}}));
  Add("sum", "Sum", {"x", "first"});
  Add("write", "ResourceApplyGradientDescent", {"v", "s", "sum"});
  ASSERT_EQ(Typed().writes.size(), 1u);
  EXPECT_TRUE(Typed().writes[0].trained);
  EXPECT_EQ(Describe(Typed().writes[0].type, *Typed().sizes), "mean over rows");
  EXPECT_EQ(Rescales(), (Names{"write/2 by -1"}));
}

TEST_F(RowTypesTest, StateIsWrittenByTheWholesValue) {
  Add(NodeOf("state", "VarHandleOp", {}, {{"shape", "shape { dim { size: 3 } }"}}));
  Add("mean", "Mean", {"x", "first"});
  Add("write", "AssignVariableOp", {"state", "mean"});
  ASSERT_EQ(Typed().writes.size(), 1u);
  EXPECT_EQ(Describe(Typed().writes[0].type, *Typed().sizes), "same on all learners");
  EXPECT_EQ(Typed().exchanges, (Names{"mean:0"}));
  EXPECT_EQ(Typed().unknown, nullptr);
}

TEST_F(RowTypesTest, AValueForEachRowCannotBeWritten) {
  Add(NodeOf("state", "VarHandleOp", {}, {{"shape", "shape { unknown_rank: true }"}}));
  Add("write", "AssignVariableOp", {"state", "x"});
  ASSERT_NE(Typed().unknown, nullptr);
  EXPECT_EQ(Typed().unknown->op, "AssignVariableOp");
}

}  // namespace
}  // namespace tensorbow
