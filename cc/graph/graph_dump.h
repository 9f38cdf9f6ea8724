// Texts of graphs for developers, written to the folder that the environment variable
// TENSORBOW_DUMP_GRAPHS names. Thread-safe.
#ifndef TENSORBOW_CC_GRAPH_GRAPH_DUMP_H_
#define TENSORBOW_CC_GRAPH_GRAPH_DUMP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns whether the variable is set.
bool DumpsGraphs();

// Returns one paragraph for each node and function, in the order of their texts.
std::string SortedText(const tensorflow::GraphDef& graph);
std::string SortedText(const tensorflow::Graph& graph);

// Writes a new file whose name ends with `name`; does nothing without the variable.
void DumpText(absl::string_view name, absl::string_view text);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_GRAPH_DUMP_H_
