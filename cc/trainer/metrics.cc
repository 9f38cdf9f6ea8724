// How learners fare: Trainer::NoteRun and Trainer::GetMetrics.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/replicas/values.h"
#include "cc/support/element.h"
#include "cc/trainer/trainer.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// ‖a − b‖² and ‖b‖² of two values of a variable; nothing where they are no numbers.
struct Distance {
  double difference = 0;
  double length = 0;
};

Distance DistanceOf(const tf::Tensor& a, const tf::Tensor& b) {
  Distance distance;
  const absl::StatusOr<ModelShape> shape = ModelShapeOf("", b);
  if (!shape.ok() || a.dtype() != b.dtype() || a.NumElements() != b.NumElements()) {
    return distance;
  }
  WithStorageType(shape->type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    const auto* const left = static_cast<const S*>(a.data());
    const auto* const right = static_cast<const S*>(b.data());
    for (int64_t i = 0; i < shape->size; ++i) {
      const double of_b = static_cast<Accumulator<S>>(right[i]);
      const double difference = static_cast<Accumulator<S>>(left[i]) - of_b;
      distance.difference += difference * difference;
      distance.length += of_b * of_b;
    }
  });
  return distance;
}

std::string NameOf(const RunSpec& spec) {
  return absl::StrCat("run ", absl::StrJoin(spec.targets, ", "),
                      spec.targets.empty() ? absl::StrJoin(spec.fetches, ", ") : "");
}

}  // namespace

void Trainer::NoteRun(const LearningProgram& program, const LearningRun& run) {
  const std::string name = activity_.recording() ? NameOf(program.task_spec) : "";
  activity_.EndRun(NowNanos(), name, run.NumRows(),
                   [this](int64_t index) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                     // The caller holds mu_.
                     for (int id = 0; id < variables_->size(); ++id) {
                       if (!variables_->trained(id)) continue;
                       if (variables_->model_index(id) != index) continue;
                       return variables_->node(id).name();
                     }
                     return std::string();
                   });
}

absl::StatusOr<Metrics> Trainer::GetMetrics() {
  absl::MutexLock lock(&mu_);
  Metrics metrics;
  metrics.figures = activity_.figures();
  metrics.learners.resize(num_learners());
  for (int j = 0; j < num_learners(); ++j) {
    learners_[j].GetMemory(&metrics.learners[j].bytes, &metrics.learners[j].peak_bytes);
  }
  for (const auto& [key, program] : progress_.Programs()) {
    if (program->host_gradients == nullptr) continue;
    metrics.host_chunk = std::max(metrics.host_chunk, program->host_gradients->chunk());
  }
  if (variables_ == nullptr || !replicates()) return metrics;
  NoteWrites();
  std::vector<Distance> sums(num_learners());
  for (int id = 0; id < variables_->size(); ++id) {
    if (!variables_->trained(id)) continue;
    TF_ASSIGN_OR_RETURN(const tf::Tensor z,
                        variables_->ModelValue(id, CentralModel::Which::kZ));
    for (int j = 0; j < num_learners(); ++j) {
      TF_ASSIGN_OR_RETURN(const tf::Tensor w, variables_->ReplicaValue(id, j));
      const Distance distance = DistanceOf(w, z);
      sums[j].difference += distance.difference;
      sums[j].length += distance.length;
    }
  }
  for (int j = 0; j < num_learners(); ++j) {
    if (sums[j].difference == 0) continue;
    metrics.learners[j].spread = std::sqrt(sums[j].difference / sums[j].length);
  }
  return metrics;
}

}  // namespace tensorbow
