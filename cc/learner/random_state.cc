#include "cc/learner/random_state.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/determinism.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr char kReserve[] = "TensorBowReserveRandom";

// A random op and the stateless op that draws the same numbers; inputs after the first
// (the shape) are the same for both.
struct Stateless {
  const char* op;
  const char* dtype;  // the attribute that holds the random op's type
};
const Stateless* StatelessOf(const std::string& op) {
  static const auto* const ops = new std::map<std::string, Stateless>{
      {"RandomStandardNormal", {"StatelessRandomNormalV2", "dtype"}},
      {"RandomUniform", {"StatelessRandomUniformV2", "dtype"}},
      {"RandomUniformInt", {"StatelessRandomUniformIntV2", "Tout"}},
      {"TruncatedNormal", {"StatelessTruncatedNormalV2", "dtype"}},
  };
  const auto known = ops->find(op);
  return known == ops->end() ? nullptr : &known->second;
}

absl::Status Replace(tf::Node* random, const Stateless& stateless, tf::Graph* graph) {
  int64_t seed = 0, seed2 = 0;
  tf::DataType dtype;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(random->attrs(), "seed", &seed));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(random->attrs(), "seed2", &seed2));
  // The kernel then reports that it needs a seed.
  if (seed == 0 && seed2 == 0 && tf::OpDeterminismRequired()) return absl::OkStatus();
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(random->attrs(), stateless.dtype, &dtype));

  std::vector<tf::NodeBuilder::NodeOut> inputs(random->num_inputs());
  std::vector<tf::Node*> before;
  for (const tf::Edge* edge : random->in_edges()) {
    if (edge->IsControlEdge()) {
      before.push_back(edge->src());
    } else {
      inputs[edge->dst_input()] = {edge->src(), edge->src_output()};
    }
  }
  std::vector<std::pair<tf::Node*, int>> after;
  for (const tf::Edge* edge : random->out_edges()) {
    after.emplace_back(edge->dst(), edge->dst_input());
  }
  const std::string name = random->name();
  const std::string requested = random->requested_device();
  const std::string assigned = random->assigned_device_name();
  graph->RemoveNode(random);

  tf::Node* reserve = nullptr;
  TF_RETURN_IF_ERROR(tf::NodeBuilder(absl::StrCat(name, "/tensorbow_reserve"), kReserve)
                         .Input(inputs[0])
                         .ControlInputs(before)
                         .Attr("stream", name)
                         .Attr("seed", seed)
                         .Attr("seed2", seed2)
                         .Device(requested)
                         .Finalize(graph, &reserve));
  reserve->set_assigned_device_name(assigned);
  tf::NodeBuilder builder(name, stateless.op);
  builder.Input(inputs[0]).Input(reserve, 0).Input(reserve, 1).Input(reserve, 2);
  for (size_t i = 1; i < inputs.size(); ++i) builder.Input(inputs[i]);
  tf::Node* draw = nullptr;
  TF_RETURN_IF_ERROR(builder.ControlInputs(before)
                         .Attr("dtype", dtype)
                         .Device(requested)
                         .Finalize(graph, &draw));
  draw->set_assigned_device_name(assigned);
  for (const auto& [node, input] : after) {
    if (input == tf::Graph::kControlSlot) {
      graph->AddControlEdge(draw, node);
    } else {
      graph->AddEdge(draw, 0, node, input);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ExposeRandomState(tf::Graph* graph) {
  std::vector<tf::Node*> random;
  for (tf::Node* node : graph->op_nodes()) {
    if (StatelessOf(node->type_string()) != nullptr) random.push_back(node);
  }
  for (tf::Node* node : random) {
    TF_RETURN_IF_ERROR(Replace(node, *StatelessOf(node->type_string()), graph));
  }
  return absl::OkStatus();
}

namespace {

void AddHiddenRandomState(const tf::Graph& graph, std::vector<std::string>* names) {
  tf::GraphDef called;
  for (const tf::Node* node : graph.op_nodes()) {
    if (KeepsRandomState(node->def(), node->op_def())) names->push_back(node->name());
    *called.add_node() = node->def();
  }
  const tf::FunctionLibraryDefinition functions =
      graph.flib_def().ReachableDefinitions(called);
  for (const std::string& function : functions.ListFunctionNames()) {
    for (const tf::NodeDef& node : functions.FindRecord(function)->fdef().node_def()) {
      const tf::OpDef* op = nullptr;
      if (functions.LookUpOpDef(node.op(), &op).ok() && KeepsRandomState(node, *op)) {
        names->push_back(absl::StrCat(function, "/", node.name()));
      }
    }
  }
}

}  // namespace

std::vector<std::string> HiddenRandomState(const TaskGraph& task) {
  std::vector<std::string> names;
  for (const TaskPart& part : task.parts) AddHiddenRandomState(*part.graph, &names);
  return names;
}

}  // namespace tensorbow
