// The passes that make the graph of a learner's task of a run, in order.
#ifndef TENSORBOW_CC_PASSES_PIPELINE_H_
#define TENSORBOW_CC_PASSES_PIPELINE_H_

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cc/passes/pass.h"

namespace tensorbow {

// A sequence of passes. After each pass that has changed its graph, names, inputs and
// the absence of circles are checked. With TENSORBOW_DUMP_GRAPHS each such graph is
// written. An error that is no InvalidArgument starts with the pass's name.
class Pipeline {
 public:
  template <typename P>
  void Add() {
    if constexpr (std::is_base_of_v<ProgramPass, P>) {
      program_.push_back(std::make_unique<P>());
    } else {
      task_.push_back(std::make_unique<P>());
    }
  }

  absl::Status RunOnProgram(const CompileInput& in, ProgramDraft* draft,
                            TaskTraits* traits) const;
  absl::Status RunOnTask(const CompileInput& in, TaskGraph* task,
                         TaskTraits* traits) const;

 private:
  std::vector<std::unique_ptr<ProgramPass>> program_;
  std::vector<std::unique_ptr<TaskPass>> task_;
};

// Makes the program accept any number of rows, without the source of a fed element.
Pipeline ProgramPipeline();
// Keeps learners together: exchanges, scales. Follows ProgramPipeline().
Pipeline ExchangePipeline();
// Adapts the lowered graph of a task to a learner.
Pipeline TaskPipeline();

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PIPELINE_H_
