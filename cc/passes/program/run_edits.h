// The graph of a run while a pass edits it: adds nodes, and redirects the users of a
// tensor. Nodes keep their names.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_RUN_EDITS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_RUN_EDITS_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

// The edits. Thread-compatible.
class RunEdits {
 public:
  // `graph`: of nodes of the program; both outlive the edits.
  RunEdits(const ProgramGraph& program, tensorflow::GraphDef* graph);

  // Returns a new node; Finish() adds it to the graph.
  tensorflow::NodeDef& Add() { return added_.emplace_back(); }
  void Finish();

  // Returns a node in its present form; null if the graph has none of that name.
  tensorflow::NodeDef* Node(absl::string_view name);
  // Returns the names of all nodes of the op.
  std::vector<std::string> NodesOf(absl::string_view op) const;
  // Returns the present tensor of an input.
  TensorName InputNow(const tensorflow::NodeDef& node, int input) const;
  // Returns a node of the program and all nodes that it is computed from.
  absl::flat_hash_set<std::string> MakersOf(const std::string& name) const;
  // Returns the number of nodes that originally took the tensor.
  size_t NumUsers(const std::string& tensor) const;
  // Returns a name for a node of the kind `what` beside the tensor.
  std::string NameBeside(const TensorName& tensor, absl::string_view what) const;
  absl::StatusOr<tensorflow::DataType> TypeOf(absl::string_view tensor) const;

  // Redirects the original users of `tensor` to `other`, except those in `keep`.
  void Replace(const std::string& tensor, const std::string& other,
               const absl::flat_hash_set<std::string>& keep = {});

  // Adds an exchange of the tensor, or a rescale by r^power.
  absl::Status AddExchange(const std::string& made, const TensorName& tensor,
                           tensorflow::DataType dtype, const char* how, int exponent);
  // Adds an exchange of a tensor in a branch, outside of all conditionals. Returns the
  // tensor that has the result in the branch.
  absl::StatusOr<std::string> AddExchangeInBranch(const TensorName& tensor,
                                                  const std::vector<Branch>& branches,
                                                  tensorflow::DataType dtype,
                                                  const char* how, int exponent);
  absl::Status AddRescale(const std::string& made, const TensorName& tensor,
                          tensorflow::DataType dtype, int power);

  // Returns the node of a tensor that learners can exchange: not in a function, a
  // conditional or a loop.
  absl::StatusOr<const tensorflow::NodeDef*> Exchangeable(absl::string_view node) const;
  // Returns the error that an edit is not possible at the node.
  absl::Status Misplaced(absl::string_view node, absl::string_view why) const;

  // Returns whether `found(name, waits)` holds for a node downstream of the tensor;
  // `waits`: the way leads through a control edge.
  template <typename Found>
  bool LeadsTo(const std::string& tensor, Found found) const {
    std::vector<int> open;
    absl::flat_hash_set<int> seen;
    bool leads = false;
    const auto follow = [&](const auto& nodes, const auto& key, bool waits) {
      const auto users = nodes.find(key);
      if (users == nodes.end()) return;
      for (int user : users->second) {
        leads |= found(graph_->node(user).name(), waits);
        if (seen.insert(user).second) open.push_back(user);
      }
    };
    follow(users_, tensor, /*waits=*/false);
    while (!open.empty() && !leads) {
      const std::string name = graph_->node(open.back()).name();
      open.pop_back();
      follow(followers_, name, /*waits=*/true);
      follow(consumers_, name, /*waits=*/false);
    }
    return leads;
  }

 private:
  using Nodes = std::vector<int>;

  const ProgramGraph& program_;
  tensorflow::GraphDef* const graph_;
  absl::flat_hash_map<std::string, int> nodes_;        // by name
  absl::flat_hash_map<std::string, Nodes> users_;      // by tensor
  absl::flat_hash_map<std::string, Nodes> consumers_;  // by node
  absl::flat_hash_map<std::string, Nodes> followers_;  // by node, over control edges
  bool has_control_flow_ = false;                      // conditionals or loops
  std::deque<tensorflow::NodeDef> added_;              // references stay valid
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_RUN_EDITS_H_
