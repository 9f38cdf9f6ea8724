#include "cc/passes/loops/count_iterations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cc/graph/downstream.h"
#include "cc/passes/loops/function_copies.h"
#include "cc/passes/loops/functional_loops.h"
#include "cc/passes/loops/known_values.h"
#include "cc/passes/loops/tensor_arrays.h"
#include "cc/passes/program/rewrite_run.h"
#include "tensorflow/core/common_runtime/lower_function_call_inline_policy.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The largest number of ops that take the place of a run's loops.
constexpr int kMostOps = 20000;

// Returns whether the op, executed at any time after its inputs, does the same.
bool IsPure(const tf::NodeDef& node, const tf::FunctionLibraryDefinition& functions) {
  if (node.op() == "ReadVariableOp" || UsesArray(node.op())) return true;
  const tf::OpDef* op = nullptr;
  return node.op() != "Enter" && node.op() != "Switch" &&
         functions.LookUpOpDef(node.op(), &op).ok() && !op->is_stateful() &&
         functions.Find(node.op()) == nullptr &&
         std::none_of(node.attr().begin(), node.attr().end(),
                      [](const auto& attribute) {
                        return attribute.second.has_func() ||
                               attribute.second.list().func_size() > 0;
                      });
}

bool UsesStack(const tf::Node& node) {
  return node.type_string() == "StackPushV2" || node.type_string() == "StackPopV2";
}

// The nodes of a function on which some of its results depend.
struct Upstream {
  absl::flat_hash_set<const tf::Node*> nodes;
  absl::flat_hash_set<int> arguments;
};

// Extends `upstream` by all on which a result depends.
void Extend(const tf::Node* result, Upstream* upstream) {
  std::vector<const tf::Node*> open = {result};
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    if (!node->IsOp() || !upstream->nodes.insert(node).second) continue;
    int index = 0;
    if (node->IsArg() && tf::GetNodeAttr(node->attrs(), "index", &index).ok()) {
      upstream->arguments.insert(index);
    }
    for (const tf::Edge* edge : node->in_edges()) {
      if (!edge->IsControlEdge()) open.push_back(edge->src());
    }
  }
}

using Counters = std::map<int, tf::Tensor>;  // by the number of the argument

// Removes the counters whose next values depend on other arguments.
void KeepClosed(const LoopFunction& body, Counters* counters) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto counter = counters->begin(); counter != counters->end();) {
      Upstream upstream;
      Extend(body.body->ret_nodes[counter->first], &upstream);
      const bool closed =
          std::all_of(upstream.arguments.begin(), upstream.arguments.end(),
                      [counters](int needed) { return counters->count(needed) > 0; });
      counter = closed ? std::next(counter) : counters->erase(counter);
      changed |= !closed;
    }
  }
}

// The values in a loop's function that follow from the counters.
class CountedValues {
 public:
  CountedValues(const LoopFunction& function, const Counters& counters,
                KnownValues* values)
      : function_(*function.body), counters_(counters), values_(*values) {}

  std::optional<tf::Tensor> Result(int number) {
    return Of(values_.InputOf(*function_.ret_nodes[number], 0));
  }

 private:
  std::optional<tf::Tensor> Argument(const tf::Node& node) const {
    int index = 0;
    if (!tf::GetNodeAttr(node.attrs(), "index", &index).ok()) return std::nullopt;
    const auto counter = counters_.find(index);
    if (counter == counters_.end()) return std::nullopt;
    return counter->second;
  }

  std::optional<tf::Tensor> Of(const tf::OutputTensor& tensor) {
    const tf::Node& node = *tensor.node;
    if (node.IsArg()) return Argument(node);
    if (node.IsConstant()) return values_.Constant(tensor);
    if (node.IsIdentity()) return Of(values_.InputOf(node, 0));
    const auto [known, is_new] = known_.try_emplace({&node, tensor.index});
    if (!is_new) return known->second;
    std::optional<tf::Tensor> value;
    if (node.num_inputs() == 2) {
      const std::optional<tf::Tensor> a = Of(values_.InputOf(node, 0));
      const std::optional<tf::Tensor> b = Of(values_.InputOf(node, 1));
      if (a.has_value() && b.has_value()) value = CountedBy(node.type_string(), *a, *b);
    }
    if (!value.has_value()) {
      value = values_.Evaluate(
          tensor, [this](const tf::Node& source, int) -> std::optional<tf::Tensor> {
            return source.IsArg() ? Argument(source) : std::nullopt;
          });
    }
    return known_[{&node, tensor.index}] = value;
  }

  const tf::FunctionBody& function_;
  const Counters& counters_;
  KnownValues& values_;
  absl::flat_hash_map<std::pair<const tf::Node*, int>, std::optional<tf::Tensor>>
      known_;
};

// Counts the iterations of all loops in a graph.
class Counter {
 public:
  // `all`: none may stay a loop, and their stacks go with them.
  Counter(bool all, tf::Graph* graph)
      : all_(all),
        graph_(*graph),
        values_(graph),
        copies_(graph->flib_def(), graph, &values_) {}

  // Returns whether any loop, or all, have a constant number.
  absl::StatusOr<bool> Count() {
    tf::FixupSourceAndSinkEdges(&graph_);  // the order begins with the source
    std::vector<tf::Node*> order;
    tf::GetReversePostOrder(graph_, &order, tf::NodeComparatorName());
    std::unordered_set<const tf::Node*> program;
    for (const tf::Node* node : order) {
      if (node->IsOp()) program.insert(node);
    }
    const NodeSet conditional = Conditional(graph_);
    bool any = false;
    for (tf::Node* node : order) {
      if (!node->IsOp()) continue;
      TF_RETURN_IF_ERROR(TakeCurrentInputs(values_, &graph_, node));
      TF_RETURN_IF_ERROR(values_.Infer(node));
      if (all_ && UsesStack(*node)) return false;
      if (!IsLoop(node->type_string())) continue;
      bool counted = false;
      if (conditional.count(node) == 0) {
        TF_ASSIGN_OR_RETURN(counted, CountOne(node));
      }
      if (all_ && !counted) return false;
      any |= counted;
    }
    for (const auto& constant : constants_) program.insert(constant.node);
    tf::PruneForReverseReachability(&graph_, std::move(program));
    return any;
  }

 private:
  // The loops that use a stack.
  struct Stack {
    tf::Node* push = nullptr;
    tf::Node* pop = nullptr;
  };

  // Has a loop wait for those that push onto its stacks. Returns whether each stack has
  // one op that pushes in a loop and one that pops in a later one.
  bool FollowStacks(const LoopFunction& body, tf::Node* loop) {
    for (const tf::Node* node : body.order) {
      if (!UsesStack(*node)) continue;
      const tf::Node* handle = nullptr;
      int index = 0;
      if (!all_ || !node->input_node(0, &handle).ok() || !handle->IsArg() ||
          !tf::GetNodeAttr(handle->attrs(), "index", &index).ok()) {
        return false;
      }
      const tf::Node* const made = values_.InputOf(*loop, index).node;
      if (made->type_string() != "StackV2") return false;
      Stack& stack = stacks_[made];
      const bool pushes = node->type_string() == "StackPushV2";
      tf::Node*& user = pushes ? stack.push : stack.pop;
      if (user != nullptr || stack.push == loop) return false;
      if (!pushes && stack.push == nullptr) return false;
      user = loop;
      if (!pushes) graph_.AddControlEdge(stack.push, loop);
    }
    return true;
  }

  bool MayCopy(const LoopFunction& function) const {
    const auto& nodes = function.definition->node_def();
    return std::all_of(nodes.begin(), nodes.end(), [this](const tf::NodeDef& node) {
      return IsPure(node, graph_.flib_def());
    });
  }

  absl::StatusOr<bool> CountOne(tf::Node* loop) {
    TF_ASSIGN_OR_RETURN(const LoopFunction* const condition,
                        copies_.Find(*loop, "cond"));
    TF_ASSIGN_OR_RETURN(const LoopFunction* const body, copies_.Find(*loop, "body"));
    if (!MayCopy(*condition) || !MayCopy(*body) || !FollowStacks(*body, loop)) {
      return false;
    }
    Tensors variables;
    for (int i = 0; i < loop->num_inputs(); ++i) {
      variables.push_back(values_.InputOf(*loop, i));
    }
    Counters counters = ConstantsOf(variables);
    KeepClosed(*body, &counters);
    Upstream decision;
    Extend(condition->body->ret_nodes[0], &decision);
    for (int i : decision.arguments) {
      if (counters.count(i) == 0) return false;
    }
    const int most = (kMostOps - num_ops_) / static_cast<int>(body->order.size());
    int iterations = 0;
    for (;; ++iterations) {
      if (iterations > most) return false;
      const auto goes_on = CountedValues(*condition, counters, &values_).Result(0);
      if (!goes_on.has_value() || goes_on->dtype() != tf::DT_BOOL ||
          goes_on->dims() != 0) {
        return false;
      }
      if (!goes_on->scalar<bool>()()) break;
      CountedValues next(*body, counters, &values_);
      Counters counted;
      for (const auto& [i, value] : counters) {
        const std::optional<tf::Tensor> result = next.Result(i);
        if (!result.has_value()) return false;
        counted[i] = *result;
      }
      counters = std::move(counted);
    }
    num_ops_ += iterations * static_cast<int>(body->order.size());
    for (const auto& [i, value] : counters) {
      TF_ASSIGN_OR_RETURN(const tf::OutputTensor last, values_.AddConstant(value));
      values_.Replace({loop, i}, last);
      constants_.push_back(last);
    }
    loop->ClearAttr(tf::LowerFunctionalOpsConstants::kLowerUsingSwitchMergeAttr);
    loop->AddAttr(kIterationsAttribute, iterations);
    return true;
  }

  // Returns the variables that are constant scalars.
  Counters ConstantsOf(const Tensors& variables) {
    Counters constants;
    for (size_t i = 0; i < variables.size(); ++i) {
      const tf::OutputTensor& variable = variables[i];
      const tf::DataType type = variable.node->output_type(variable.index);
      if (!tf::DataTypeIsInteger(type) || !values_.IsScalar(variable)) continue;
      const std::optional<tf::Tensor> value = values_.Constant(variable);
      if (value.has_value()) constants[i] = *value;
    }
    return constants;
  }

  const bool all_;
  tf::Graph& graph_;
  KnownValues values_;
  FunctionCopies copies_;
  absl::flat_hash_map<const tf::Node*, Stack> stacks_;  // by the op that makes them
  Tensors constants_;
  int num_ops_ = 0;
};

// Returns whether no feed replaces a value that the graph holds.
bool FeedsAreVariable(const RunSpec& spec, const ProgramGraph& graph) {
  return std::all_of(
      spec.feeds.begin(), spec.feeds.end(), [&graph](const std::string& feed) {
        const tf::NodeDef* const node = graph.Find(ParseTensor(feed).node);
        if (node == nullptr || node->op() == "PlaceholderWithDefault") return true;
        return node->input_size() == 0 && node->op() != "Const";
      });
}

// Returns whether the run has loops that are functions.
absl::StatusOr<bool> HasLoops(const ProgramGraph& graph, const RunSpec& spec) {
  const tf::FunctionLibraryDefinition& functions = graph.functions();
  bool calls = false;
  TF_ASSIGN_OR_RETURN(
      const bool loops, NeedsAny(graph, spec, [&](const tf::NodeDef* node) {
        calls |= FunctionOf(tf::AttrSlice(*node), node->op(), functions) != nullptr;
        return IsLoop(node->op());
      }));
  if (loops || !calls) return loops;
  for (const std::string& name : functions.ListFunctionNames()) {
    for (const tf::NodeDef& node : functions.Find(name)->node_def()) {
      if (IsLoop(node.op())) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> CountIterations(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* counted) {
  if (!FeedsAreVariable(spec, graph)) return false;
  TF_ASSIGN_OR_RETURN(const bool frames,
                      NeedsAny(graph, spec, [](const tf::NodeDef* node) {
                        return node->op() == "Enter";
                      }));
  const auto count = [&](bool all) {
    return RewriteRun(
        graph, spec,
        [all](tf::Graph* made) -> absl::StatusOr<bool> {
          TF_RETURN_IF_ERROR(InlineCalls(made).status());
          if (all) TF_RETURN_IF_ERROR(MakeLoopsFunctional(made));
          return Counter(all, made).Count();
        },
        counted);
  };
  if (frames && count(/*all=*/true).value_or(false)) return true;
  TF_ASSIGN_OR_RETURN(const bool loops, HasLoops(graph, spec));
  if (!loops) return false;
  return count(/*all=*/false);
}

}  // namespace tensorbow
