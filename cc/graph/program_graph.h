// The program's graph as the user built it, by node name. It only grows (a session
// extends its graph, never edits it), so nodes keep their addresses.
// Thread-compatible.
#ifndef TENSORBOW_CC_GRAPH_PROGRAM_GRAPH_H_
#define TENSORBOW_CC_GRAPH_PROGRAM_GRAPH_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tensorbow {

// The names in a run: tensors "node:index" to feed and to fetch, nodes to execute.
struct RunSpec {
  std::vector<std::string> feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
};

// Returns a text that identifies the spec, the same in every process.
std::string KeyOf(const RunSpec& spec);

// The producer of a tensor or control input ("node", "node:2", "^node"), and the
// output's index for tensors.
struct TensorName {
  absl::string_view node;
  int index = 0;
  bool control = false;
};
TensorName ParseTensor(absl::string_view name);
// Returns "node:index" of a tensor, which may be given without its index.
std::string Canonical(absl::string_view tensor);
// Returns the tensors that a run is fed, each as "node:index".
absl::flat_hash_set<std::string> FeedsOf(const RunSpec& spec);

class ProgramGraph {
 public:
  ProgramGraph();

  absl::Status Extend(const tensorflow::GraphDef& extension);

  // Finds the nodes `spec` needs, in the order of the graph; nothing upstream of a fed
  // tensor. NotFound if a name does not exist.
  absl::Status Needed(const RunSpec& spec,
                      std::vector<const tensorflow::NodeDef*>* nodes) const;

  // Copies all that `spec` mentions with its ancestors, fed or not, and the function
  // library.
  absl::Status Closure(const RunSpec& spec, tensorflow::GraphDef* closure) const;

  const tensorflow::NodeDef* Find(absl::string_view node) const;
  const tensorflow::FunctionLibraryDefinition& functions() const { return functions_; }
  const tensorflow::GraphDef& graph_def() const { return graph_; }

 private:
  absl::Status Reach(const RunSpec& spec, bool cut_at_feeds,
                     std::vector<int>* nodes) const;

  tensorflow::GraphDef graph_;  // nodes and versions; the library is in functions_
  tensorflow::FunctionLibraryDefinition functions_;
  absl::flat_hash_map<std::string, int> index_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_PROGRAM_GRAPH_H_
