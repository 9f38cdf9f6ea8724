#include "cc/program/task_shapes.h"

#include <algorithm>

namespace tensorbow {

namespace tf = ::tensorflow;

bool HaveShapes(const std::vector<tf::Tensor>& feeds, const TaskShapes& shapes) {
  return std::equal(feeds.begin(), feeds.end(), shapes.begin(), shapes.end(),
                    [](const tf::Tensor& feed, const tf::TensorShape& shape) {
                      return feed.shape() == shape;
                    });
}

std::vector<TaskShapes> ShapesOfTasks(const FeedPlan& plan,
                                      const std::vector<tf::Tensor>& feeds) {
  // The parts of a sparse tensor have as many rows as their values say.
  if (!plan.sparse.empty()) return {};
  TaskShapes whole;
  for (const tf::Tensor& feed : feeds) whole.push_back(feed.shape());
  if (plan.tasks.empty()) return {whole};
  std::vector<TaskShapes> shapes;
  for (const FeedPlan::Rows& rows : plan.tasks) {
    TaskShapes task = whole;
    for (size_t i = 0; i < task.size(); ++i) {
      if (plan.divided[i]) task[i].set_dim(0, rows.count());
    }
    if (std::find(shapes.begin(), shapes.end(), task) == shapes.end()) {
      shapes.push_back(std::move(task));
    }
  }
  return shapes;
}

std::optional<TaskShapes> ShapeCounts::Count(const std::vector<TaskShapes>& shapes) {
  for (const TaskShapes& task : shapes) {
    if (with_graph_.size() == kMostGraphs) break;
    if (std::count(with_graph_.begin(), with_graph_.end(), task) > 0) continue;
    auto known = std::find_if(others_.begin(), others_.end(),
                              [&](const auto& other) { return other.first == task; });
    if (known == others_.end()) {
      if (others_.size() == kRemembered) others_.pop_front();
      known = others_.insert(others_.end(), {task, 0});
    }
    if (++known->second < runs_) continue;
    others_.erase(known);
    with_graph_.push_back(task);
    return task;
  }
  return std::nullopt;
}

}  // namespace tensorbow
