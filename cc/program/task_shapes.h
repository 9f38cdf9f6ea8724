// The shapes of the feeds of tasks, and how often they have come. Thread-compatible.
//
// An accelerator's task of known shapes needs nothing from the host and can be
// recorded. A graph for these shapes is compiled when they come again and again.
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

TaskShapes ShapesOf(const std::vector<tensorflow::Tensor>& feeds);

// Returns the shapes of the tasks of a run, each once.
std::vector<TaskShapes> ShapesOfTasks(const FeedPlan& plan,
                                      const std::vector<tensorflow::Tensor>& feeds);

// The last shapes of a program's tasks.
class ShapeCounts {
 public:
  // Counts a run whose tasks have these shapes. Returns those for which a graph is to
  // be compiled now.
  std::optional<TaskShapes> Count(const std::vector<TaskShapes>& shapes);

 private:
  static constexpr int kRuns = 3;  // of shapes that get a graph
  static constexpr size_t kMostGraphs = 3;
  static constexpr size_t kRemembered = 16;

  std::vector<TaskShapes> with_graph_;
  std::deque<std::pair<TaskShapes, int>> others_;  // with the number of runs
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_TASK_SHAPES_H_
