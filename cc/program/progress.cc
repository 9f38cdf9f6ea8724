#include "cc/program/progress.h"

#include <set>
#include <utility>

namespace tensorbow {

namespace {

void SetProgress(const RunProgress& progress, LearningProgram* program) {
  program->first_iteration = progress.iterations;
  if (program->set != nullptr) program->set->set_iterations(progress.iterations);
  program->rates.Set(progress.last_rates, progress.rate_dropped);
}

}  // namespace

std::map<std::string, std::shared_ptr<LearningProgram>>
RunProgressTable::ProgramsLocked() const {
  std::map<std::string, std::shared_ptr<LearningProgram>> programs;
  for (const auto& [key, weak] : programs_) {
    if (auto program = weak.lock()) programs[key] = std::move(program);
  }
  return programs;
}

std::map<std::string, std::shared_ptr<LearningProgram>> RunProgressTable::Programs()
    const {
  absl::MutexLock lock(&mu_);
  return ProgramsLocked();
}

void RunProgressTable::Add(const std::string& key,
                           const std::shared_ptr<LearningProgram>& program) {
  absl::MutexLock lock(&mu_);
  if (const auto loaded = loaded_.extract(key)) {
    SetProgress(loaded.mapped(), program.get());
  }
  programs_[key] = program;
}

std::map<std::string, RunProgress> RunProgressTable::Get() const {
  absl::MutexLock lock(&mu_);
  std::map<std::string, RunProgress> progress = loaded_;
  for (const auto& [key, program] : ProgramsLocked()) {
    RunProgress& run = progress[key];
    run.iterations =
        program->set == nullptr ? program->first_iteration : program->set->iterations();
    run.last_rates = program->rates.last();
    run.rate_dropped = program->rates.dropped();
  }
  return progress;
}

void RunProgressTable::Set(std::map<std::string, RunProgress> progress) {
  absl::MutexLock lock(&mu_);
  for (const auto& [key, program] : ProgramsLocked()) {
    SetProgress(progress[key], program.get());
    progress.erase(key);
  }
  loaded_ = std::move(progress);
}

std::vector<std::string> RunProgressTable::HiddenRandomOps() const {
  absl::MutexLock lock(&mu_);
  std::set<std::string> names;
  for (const auto& [key, program] : ProgramsLocked()) {
    names.insert(program->hidden_random_ops.begin(), program->hidden_random_ops.end());
  }
  return {names.begin(), names.end()};
}

}  // namespace tensorbow
