// The shapes of the feeds of tasks, and how often they have come. Thread-compatible.
//
// A task of known shapes computes nothing from them; an accelerator's needs nothing
// from the host and can be recorded. When shapes come again and again, they get a
// graph.
#ifndef TENSORBOW_CC_PROGRAM_TASK_SHAPES_H_
#define TENSORBOW_CC_PROGRAM_TASK_SHAPES_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "cc/feeds/feeds.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

using TaskShapes = std::vector<tensorflow::TensorShape>;  // by feed

bool HaveShapes(const std::vector<tensorflow::Tensor>& feeds, const TaskShapes& shapes);

// Returns the shapes of the tasks of a run, each once.
std::vector<TaskShapes> ShapesOfTasks(const FeedPlan& plan,
                                      const std::vector<tensorflow::Tensor>& feeds);

// The last shapes of a program's tasks.
class ShapeCounts {
 public:
  // `runs`: the number of runs with the same shapes after which they get a graph.
  explicit ShapeCounts(int runs) : runs_(runs) {}

  // Counts a run whose tasks have these shapes. Returns those for which a graph is to
  // be compiled now.
  std::optional<TaskShapes> Count(const std::vector<TaskShapes>& shapes);

 private:
  static constexpr size_t kMostGraphs = 3;
  static constexpr size_t kRemembered = 16;

  const int runs_;
  std::vector<TaskShapes> with_graph_;
  std::deque<std::pair<TaskShapes, int>> others_;  // with the number of runs
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_TASK_SHAPES_H_
