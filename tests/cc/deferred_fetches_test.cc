// The choice of nodes that are executed once, after the learners' tasks, on graphs of a
// few nodes.
#include "cc/program/deferred_fetches.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/row_types.h"
#include "gtest/gtest.h"
#include "tests/cc/graphs.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Names = std::vector<std::string>;

// x, [rows, 3], is divided; w, [1000, 500], and s, a scalar, are not. A target, "use",
// takes whatever learners are to keep.
class DeferralTest : public ::testing::Test {
 protected:
  DeferralTest() {
    AddFeed("x", "shape { dim { size: -1 } dim { size: 3 } }");
    AddFeed("w", "shape { dim { size: 1000 } dim { size: 500 } }");
    AddFeed("s", "shape { }");
    rows_.feeds[0].divided = true;
    Add("axis", "Const", {},
        {{"dtype", "type: DT_INT32"},
         {"value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 }"}});
    Add("tag", "Const", {},
        {{"dtype", "type: DT_STRING"},
         {"value", "tensor { dtype: DT_STRING tensor_shape { } string_val: 'a' }"}});
  }

  void AddFeed(const std::string& name, const std::string& shape) {
    Add(name, "Placeholder", {}, {{"shape", shape}});
    spec_.feeds.push_back(name + ":0");
    rows_.feeds.push_back({name + ":0", false, std::nullopt});
  }
  void Add(const std::string& name, const std::string& op, const Names& inputs,
           const Attributes& attributes = {}) {
    nodes_.push_back(NodeOf(name, op, inputs, attributes));
  }
  void AddMean(const std::string& name, const std::string& input) {
    Add(name, "Mean", {input, "axis"}, {{"Tidx", "type: DT_INT32"}});
  }

  // Chooses for a run that fetches these; returns the names of fetches that are left to
  // the tasks.
  Names Choose(const Names& fetches, const Names& targets = {}) {
    spec_.fetches = fetches;
    spec_.targets = targets;
    EXPECT_TRUE(program_.Extend(GraphOf(nodes_)).ok());
    compiled_.task = spec_;
    for (const std::string& name : fetches) {
      compiled_.fetches.emplace_back();
      compiled_.fetches.back().declaration.name = name;
      compiled_.fetches.back().task_fetch =
          static_cast<int>(compiled_.fetches.size()) - 1;
    }
    auto deferral = Deferral::Of(program_, program_, compiled_);
    EXPECT_TRUE(deferral.ok()) << deferral.status();
    RunSpec rest;
    absl::StatusOr<RowTypes> types;
    do {
      rest = deferral->Rest(spec_);
      types = TypeRows(program_, rest, {}, rows_, /*gathers=*/true);
      EXPECT_TRUE(types.ok()) << types.status();
    } while (deferral->Extend(*types));
    EXPECT_TRUE(deferral->Apply(*types, &compiled_).ok());
    EXPECT_EQ(compiled_.task.fetches, rest.fetches);
    return rest.fetches;
  }

  // Returns "tensor of a task" or "tensor fed" for the inputs of the deferred nodes.
  Names Inputs() const {
    Names inputs;
    for (const DeferredInput& input : compiled_.deferred_inputs) {
      inputs.push_back(absl::StrCat(input.declaration.name,
                                    input.run_feed >= 0 ? " fed" : " of a task"));
    }
    return inputs;
  }

  std::vector<tf::NodeDef> nodes_;
  RunSpec spec_;
  RowsOfRun rows_;
  ProgramGraph program_;
  CompiledProgram compiled_;
};

TEST_F(DeferralTest, AHistogramOfAWeightIsDeferred) {
  Add("histogram", "HistogramSummary", {"tag", "w"});
  EXPECT_EQ(Choose({"histogram:0"}), Names());
  EXPECT_EQ(Inputs(), Names({"w:0 fed"}));
  EXPECT_TRUE(compiled_.fetches[0].deferred);
  EXPECT_EQ(compiled_.fetches[0].task_fetch, -1);
}

TEST_F(DeferralTest, AShortComputationStays) {
  Add("square", "Square", {"s"});
  EXPECT_EQ(Choose({"square:0"}), Names({"square:0"}));
  EXPECT_FALSE(compiled_.fetches[0].deferred);
}

TEST_F(DeferralTest, AMergedSummaryTakesScalarsWithItAndTheirMeansFromTasks) {
  Add("squares", "Square", {"x"});
  AddMean("loss", "squares");
  Add("first", "Slice", {"loss", "begin", "size"}, {{"Index", "type: DT_INT32"}});
  for (const char* name : {"begin", "size"}) {
    Add(name, "Const", {},
        {{"dtype", "type: DT_INT32"},
         {"value",
          "tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } "
          "int_val: 1 }"}});
  }
  Add("scalar", "ScalarSummary", {"tags", "first"});
  Add("tags", "Const", {},
      {{"dtype", "type: DT_STRING"},
       {"value",
        "tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } "
        "string_val: 'b' }"}});
  Add("histogram", "HistogramSummary", {"tag", "w"});
  Add("merged", "MergeSummary", {"histogram", "scalar"}, {{"N", "i: 2"}});
  EXPECT_EQ(Choose({"merged:0"}), Names({"loss:0"}));
  EXPECT_EQ(Inputs(), Names({"loss:0 of a task", "w:0 fed"}));
  EXPECT_EQ(compiled_.deferred_inputs[0].declaration.rule->how, FetchRule::How::kSum);
}

TEST_F(DeferralTest, AnOpThatMixesRowsGetsThoseOfAllTasks) {
  Add("twice", "AddV2", {"x", "x"});
  Add("flat", "Square", {"twice"});
  Add("sum", "Cumsum", {"flat", "axis"}, {{"Tidx", "type: DT_INT32"}});
  EXPECT_EQ(Choose({"sum:0"}), Names({"flat:0"}));
  EXPECT_EQ(Inputs(), Names({"flat:0 of a task"}));
  EXPECT_EQ(compiled_.deferred_inputs[0].declaration.rule->how, FetchRule::How::kRows);
}

TEST_F(DeferralTest, NodesThatATargetNeedsStay) {
  Add("square", "Square", {"w"});
  Add("kept", "Square", {"square"});
  Add("histogram", "HistogramSummary", {"tag", "square"});
  EXPECT_EQ(Choose({"histogram:0"}, {"kept"}), Names({"square:0"}));
}

TEST_F(DeferralTest, ANodeThatWaitsForAnotherStays) {
  Add("histogram", "HistogramSummary", {"tag", "w", "^kept"});
  Add("kept", "Square", {"s"});
  EXPECT_EQ(Choose({"histogram:0"}), Names({"histogram:0"}));
}

TEST_F(DeferralTest, NothingIsDeferredIfAnInputCannotBeCombined) {
  Add("list", "TensorListFromTensor", {"x", "shape"},
      {{"element_dtype", "type: DT_FLOAT"}, {"shape_type", "type: DT_INT32"}});
  Add("shape", "Const", {},
      {{"dtype", "type: DT_INT32"},
       {"value",
        "tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } "
        "int_val: 3 }"}});
  Add("random", "RandomUniform", {"shape"},
      {{"dtype", "type: DT_FLOAT"}, {"T", "type: DT_INT32"}});
  Add("length", "TensorListLength", {"list"});
  EXPECT_EQ(Choose({"length:0"}, {"list"}), Names({"length:0"}));
}

TEST_F(DeferralTest, AFetchThatTheUserCombinesStays) {
  Add("histogram", "HistogramSummary", {"tag", "w"});
  compiled_.fetches.emplace_back();
  compiled_.fetches.back().declaration.name = "histogram:0";
  compiled_.fetches.back().declaration.combination = Combination::kFirst;
  compiled_.fetches.back().task_fetch = 0;
  EXPECT_TRUE(program_.Extend(GraphOf(nodes_)).ok());
  compiled_.task = spec_;
  compiled_.task.fetches = {"histogram:0"};
  auto deferral = Deferral::Of(program_, program_, compiled_);
  ASSERT_TRUE(deferral.ok());
  auto types = TypeRows(program_, compiled_.task, {}, rows_, /*gathers=*/true);
  ASSERT_TRUE(types.ok());
  EXPECT_FALSE(deferral->Extend(*types));
}

}  // namespace
}  // namespace tensorbow
