// What it takes to evaluate a part of a graph twice with the same result: no side
// effects, no data that is taken once, random numbers that are constants. Pure
// functions.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_REPEATABLE_H_
#define TENSORBOW_CC_PASSES_PROGRAM_REPEATABLE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/graph/dataflow.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace tensorbow {

// Whether executing the node again does no harm, once MakeConstant() has been
// applied to it. Of a node that calls functions, the functions' bodies do not count.
bool IsRepeatable(const tensorflow::NodeDef& node,
                  const tensorflow::FunctionLibraryDefinition& functions);

// Returns whether the op draws classes, which no constant can stand for.
bool IsCandidateSampler(absl::string_view op);

// If the node draws random numbers, makes it an op that gives constants of the same
// shape and type instead: uniform numbers near the upper end of their range, so that
// dropout drops nothing, others near their mean. What shuffles, prints or checks hands
// its input on, or does nothing. Returns what the node needs beside it. `in_function`:
// names are a function body's.
std::vector<tensorflow::NodeDef> MakeConstant(tensorflow::NodeDef* node,
                                              bool in_function = false);

// Copies of functions whose bodies can be executed again and again.
class RepeatableFunctions {
 public:
  // New functions are named with `prefix` and added to `library`; neither is owned.
  RepeatableFunctions(const tensorflow::FunctionLibraryDefinition& functions,
                      std::string prefix, tensorflow::FunctionDefLibrary* library)
      : functions_(functions),
        prefix_(std::move(prefix)),
        library_(library),
        summaries_(functions) {}

  // Has the node call copies where need be. FailedPrecondition if what it calls writes
  // something, takes data or draws numbers in a way that is not known.
  absl::Status MakeRepeatable(tensorflow::NodeDef* node);

 private:
  absl::StatusOr<std::string> Copy(const std::string& name);

  const tensorflow::FunctionLibraryDefinition& functions_;
  const std::string prefix_;
  tensorflow::FunctionDefLibrary* const library_;
  FunctionSummaries summaries_;
  std::map<std::string, std::string> copies_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_REPEATABLE_H_
