#include "cc/program/program.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

const Learner::Program& LearnerPrograms::Of(
    int learner, const std::vector<tensorflow::Tensor>& feeds) const {
  for (const auto& [shapes, programs] : by_shapes) {
    if (HaveShapes(feeds, shapes)) return *programs[learner];
  }
  return *tasks[learner];
}

void Program::Replace(std::shared_ptr<const CompiledProgram> compiled,
                      std::unique_ptr<LearnerPrograms> learners) {
  learners_ = std::move(learners);
  absl::MutexLock lock(&mu_);
  compiled_ = std::move(compiled);
}

void Program::ForgetLearners() {
  learners_.reset();
  ProgramState kept;
  kept.first_iteration =
      state.set == nullptr ? state.first_iteration : state.set->iterations();
  kept.rates = std::move(state.rates);
  state = std::move(kept);
}

int64_t Program::Fingerprint() const {
  const auto compiled = this->compiled();
  const HostGradients* const gradients = compiled->host_gradients.get();
  std::string text;
  for (int k = 0; gradients != nullptr && k < gradients->size(); ++k) {
    absl::StrAppend(&text, gradients->gradient(k).size, " ");
  }
  for (const auto& [name, use] : analysis.variables) {
    absl::StrAppend(&text, name, use.trained ? " trained" : "",
                    use.written ? " written" : "", "\n");
  }
  return static_cast<int64_t>(tensorflow::Hash64(text));
}

}  // namespace tensorbow
