#include "cc/learner/task_obstacles.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/common_runtime/memory_types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using OpSet = absl::flat_hash_set<std::string>;

// Returns whether the op waits for the device to learn the shape of its result.
bool HasValueDependentShape(const std::string& op) {
  static const auto* const ops = new OpSet(
      {"Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2",
       "DynamicPartition", "ListDiff", "SparseFillEmptyRows", "SparseReshape",
       "SparseToDense", "Bincount", "DenseBincount", "RaggedRange"});
  return ops->contains(op) || absl::StrContains(op, "NonMaxSuppression");
}

// Returns whether the op's kernel keeps a table in host memory until a callback from
// the device (TensorFlow's GpuDeviceArrayOnHost). Up to eight tensors need no table.
bool KeepsTableOnHost(const tf::Node& node) {
  constexpr int kTensorsWithoutTable = 8;
  static const auto* const always = new OpSet(
      {"DynamicStitch", "ParallelDynamicStitch", "Bucketize", "SparseConcat"});
  static const auto* const if_many =
      new OpSet({"Concat", "ConcatV2", "Pack", "Split", "SplitV", "Unpack"});
  if (always->contains(node.type_string())) return true;
  return if_many->contains(node.type_string()) &&
         std::max(node.num_inputs(), node.num_outputs()) > kTensorsWithoutTable;
}

// Returns whether the op decides on the host, by a value on the device, which nodes are
// executed.
bool DecidesOnHost(const tf::Node& node) {
  return node.IsControlFlow() || node.IsIfNode() || node.IsWhileNode() ||
         node.IsCaseNode();
}

// Returns whether the op keeps state other than variables from task to task.
bool KeepsStateOnHost(const tf::Node& node) {
  if (!node.op_def().is_stateful() || node.IsArg() || node.IsRetval() ||
      FactsOf(node.type_string()).creates_variable) {
    return false;
  }
  const auto is_variable = [](tf::DataType type) {
    return type == tf::DT_RESOURCE || tf::IsRefType(type);
  };
  // Ops that read or update a variable are stateful, too.
  return std::none_of(node.input_types().begin(), node.input_types().end(),
                      is_variable);
}

// Returns whether the op makes a value in host memory from one in the device's memory.
bool BringsValueToHost(const tf::Node& node, const tf::DeviceType& device) {
  // These need only the shape, which the host knows.
  static const auto* const of_shapes = new OpSet({"Shape", "ShapeN", "Size", "Rank"});
  if (of_shapes->contains(node.type_string()) || node.IsArg() || node.IsRetval()) {
    return false;
  }
  tf::MemoryTypeVector inputs, outputs;
  if (!tf::MemoryTypesForNode(tf::OpRegistry::Global(), device, node.def(), &inputs,
                              &outputs)
           .ok()) {
    return false;  // no kernel; compiling the task reports it
  }
  return std::count(inputs.begin(), inputs.end(), tf::DEVICE_MEMORY) > 0 &&
         std::count(outputs.begin(), outputs.end(), tf::HOST_MEMORY) > 0;
}

// Returns the reason why an op cannot be recorded, or null.
const char* Obstacle(const tf::Node& node, const tf::DeviceType& device) {
  if (KeepsRandomState(node.def(), node.op_def())) {
    return "draws random numbers, whose state is kept on the host";
  }
  if (DecidesOnHost(node)) return "decides on the host what is executed";
  if (node.IsFunctionCall()) return "calls a function";
  if (node.IsSend() || node.IsRecv()) return "exchanges values with the CPU";
  if (HasValueDependentShape(node.type_string())) {
    return "makes a result whose shape depends on values";
  }
  if (FactsOf(node.type_string()).only_checks) return "looks at values on the host";
  if (KeepsTableOnHost(node)) return "keeps a table in host memory";
  if (KeepsStateOnHost(node)) return "keeps a state on the host";
  if (BringsValueToHost(node, device)) return "brings a value to the host";
  return nullptr;
}

tf::DeviceType TypeOf(const std::string& device) {
  tf::DeviceNameUtils::ParsedName name;
  if (!tf::DeviceNameUtils::ParseFullName(device, &name)) name.type = tf::DEVICE_CPU;
  return tf::DeviceType(name.type);
}

}  // namespace

std::string ObstacleToRecording(const std::vector<TaskPart>& parts,
                                const std::string& accelerator) {
  const tf::DeviceType type = TypeOf(accelerator);
  std::string obstacle;
  for (const TaskPart& part : parts) {
    for (const tf::Node* node : part.graph->op_nodes()) {
      const char* why = Obstacle(*node, type);
      if (node->assigned_device_name() != accelerator && !node->IsSend() &&
          !node->IsRecv()) {
        why = "is executed on the CPU";
      }
      if (why == nullptr) continue;
      obstacle = absl::StrCat("'", node->name(), "' (", node->type_string(), ") ", why);
      // A transfer is only the consequence of an op on the CPU.
      if (!node->IsSend() && !node->IsRecv()) return obstacle;
    }
  }
  return obstacle;
}

}  // namespace tensorbow
