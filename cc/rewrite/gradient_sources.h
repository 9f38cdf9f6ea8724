// The tensors from which a learning run makes its updates: the gradients as they leave
// the loss, before an optimiser, written as an op or by hand, clips, scales or squares
// them.
//
// Found backwards from what is written to a trained variable, through operations that
// work element by element, up to the first that does not: a product, a sum over rows.
// Where two summands depend on what is fed, their sum is it. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_GRADIENT_SOURCES_H_
#define TENSORBOW_CC_REWRITE_GRADIENT_SOURCES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// One tensor from which a variable is updated.
struct GradientSource {
  std::string variable;
  std::string tensor;   // "node:index"
  std::string indices;  // of the variable's rows; "" for all of it
  // The variable's new value, not a change of it.
  bool is_value = false;
  // An optimiser op, or one of TensorFlow's optimisers' for some rows, gets what is not
  // linear in it: clipped, squared, normalised.
  bool transformed = false;
  // It is a sum of rows that are not linear in what leaves the loss; also given for an
  // optimiser's slot, if it is one.
  bool of_transformed_rows = false;
  // Of dense ones: known, if it is known to be as large as the variable's.
  tensorflow::PartialTensorShape shape = {};
};

// Where the program says what its gradients are, they are taken as told: what goes into
// a TensorBowReduceGradient, or an Identity named TensorBow.gradient (tensorbow/keras).
// Else of all trained variables that `analysis` knows, for the run that it is of. A
// variable may have several sources (both moments of an optimiser written by hand come
// from one gradient), or none: it is updated in a function, a conditional or a loop.
std::vector<GradientSource> FindGradientSources(const ProgramGraph& graph,
                                                const RunSpec& spec,
                                                const RunAnalysis& analysis);

// What an optimiser op takes beside variables and its gradient, its rates; of other ops
// nothing.
std::vector<std::string> OthersOf(const tensorflow::NodeDef& node,
                                  const std::vector<Input>& inputs);

// The nodes among `nodes`, by name, whose values depend on what is fed, otherwise than
// by tensors in `cuts`. `read_in`: their graph, if variables are to be followed that
// are read immediately after they have been written.
absl::flat_hash_set<std::string> DependOnFeeds(
    const RunSpec& spec, const std::vector<const tensorflow::NodeDef*>& nodes,
    const absl::flat_hash_set<std::string>& cuts = {},
    const ProgramGraph* read_in = nullptr);

// `spec`, fed only what may have rows: no scalars.
RunSpec FedRows(const ProgramGraph& graph, const RunSpec& spec);

// What one op writes to a variable, tensors as the node names them; empty where it is
// not told by an input.
struct Written {
  std::string value;
  std::string indices;
  bool replaces = false;
};
Written WrittenBy(const tensorflow::NodeDef& node, const std::vector<Input>& inputs);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_GRADIENT_SOURCES_H_
