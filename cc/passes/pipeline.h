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

// A sequence of passes. After each one that has changed its graph, names, inputs and
// the absence of circles are checked. With TENSORBOW_DUMP_GRAPHS each such graph is
// written. An error that is no InvalidArgument begins with the pass's name.
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

// Makes the program take any rows, without what took the element that it is fed.
Pipeline ProgramPipeline();
// Makes learners keep together: exchanges, scales. Follows ProgramPipeline().
Pipeline ExchangePipeline();
// Makes the lowered graph of a task a learner's.
Pipeline TaskPipeline();

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PIPELINE_H_
