#include "cc/trainer/metrics.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/replicas/values.h"
#include "cc/support/element.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// ‖a − b‖² and ‖b‖² of two values of a variable; 0 if they are no numbers.
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

}  // namespace

absl::StatusOr<Metrics> MetricsOf(TrainingState* state) {
  absl::MutexLock lock(&state->mu());
  LearnerGroup& learners = state->learners();
  VariableTable* const variables = state->variables();
  Metrics metrics;
  metrics.figures = state->activity().figures();
  metrics.learners.resize(learners.size());
  for (int j = 0; j < learners.size(); ++j) {
    learners[j].GetMemory(&metrics.learners[j].bytes, &metrics.learners[j].peak_bytes);
  }
  for (const auto& [key, program] : state->progress().Programs()) {
    const auto compiled = program->compiled();
    if (compiled->host_gradients == nullptr) continue;
    metrics.host_chunk =
        std::max(metrics.host_chunk, compiled->host_gradients->chunk());
  }
  if (variables == nullptr || !state->replicates()) return metrics;
  state->MarkWrites();
  std::vector<Distance> sums(learners.size());
  for (int id = 0; id < variables->size(); ++id) {
    if (!variables->trained(id)) continue;
    TF_ASSIGN_OR_RETURN(const tf::Tensor z,
                        variables->ModelValue(id, CentralModel::Which::kZ));
    for (int j = 0; j < learners.size(); ++j) {
      TF_ASSIGN_OR_RETURN(const tf::Tensor w, variables->ReplicaValue(id, j));
      const Distance distance = DistanceOf(w, z);
      sums[j].difference += distance.difference;
      sums[j].length += distance.length;
    }
  }
  for (int j = 0; j < learners.size(); ++j) {
    if (sums[j].difference == 0) continue;
    metrics.learners[j].spread = std::sqrt(sums[j].difference / sums[j].length);
  }
  return metrics;
}

namespace {

absl::StatusOr<int> FindReplicated(TrainingState* state, const std::string& variable)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu()) {
  state->MarkWrites();
  const int id =
      state->variables() == nullptr ? -1 : state->variables()->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return id;
}

}  // namespace

absl::StatusOr<tf::Tensor> LearnerValue(TrainingState* state,
                                        const std::string& variable, int learner) {
  absl::MutexLock lock(&state->mu());
  TF_ASSIGN_OR_RETURN(const int id, FindReplicated(state, variable));
  return state->variables()->ReplicaValue(id, learner);
}

absl::StatusOr<tf::Tensor> CentralValue(TrainingState* state,
                                        const std::string& variable,
                                        CentralModel::Which which) {
  absl::MutexLock lock(&state->mu());
  TF_ASSIGN_OR_RETURN(const int id, FindReplicated(state, variable));
  return state->variables()->ModelValue(id, which);
}

}  // namespace tensorbow
