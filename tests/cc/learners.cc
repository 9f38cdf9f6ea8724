#include "tests/cc/learners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "cc/synchroniser/algorithms/independent.h"
#include "cc/synchroniser/algorithms/ssgd.h"

namespace tensorbow {
namespace {

using Kind = AlgorithmCase::Kind;

CentralModel::Keeps KeptBy(const AlgorithmCase& algorithm) {
  return algorithm.kind == Kind::kSma ? KeptBySma(algorithm.sma.centre)
                                      : CentralModel::Keeps::kAverageOnly;
}

}  // namespace

Learners::Learners(const AlgorithmCase& algorithm, int count, Update update,
                   std::chrono::microseconds spin, bool skips, Hosts* hosts)
    : algorithm_(algorithm),
      update_(update),
      skips_(skips),
      model_(KeptBy(algorithm), algorithm.ema_decay),
      scheduler_(count),
      replicas_(count) {
  std::vector<int> variables;
  for (int64_t size : kSizes) {
    std::vector<float> start(size);
    for (int64_t i = 0; i < size; ++i) start[i] = Start(i);
    variables.push_back(model_.Add(ElementType::kFloat32, size));
    model_.Assign(variables.back(), start.data());
    for (auto& replica : replicas_) replica.push_back(start);
  }
  set_ = std::make_unique<TrainedSet>(count, variables);
  set_->set_exchanges(kMembers, kMembers);
  for (int m = 0; m < kMembers; ++m) {
    if (update != Update::kByTheSynchroniser) set_->set_corrects_itself(m);
    for (int j = 0; j < count; ++j) set_->set_weights(j, m, replicas_[j][m].data());
  }
  if (hosts != nullptr) rounds_ = std::make_unique<HostRounds>(hosts);
  synchroniser_ =
      std::make_unique<Synchroniser>(count, &model_, spin, NewAlgorithm(count, hosts),
                                     /*queue=*/nullptr, rounds_.get());
}

std::unique_ptr<Algorithm> Learners::NewAlgorithm(int count, Hosts* hosts) {
  switch (algorithm_.kind) {
    case Kind::kSsgd:
      return std::make_unique<Ssgd>(&model_);
    case Kind::kIndependent:
      return std::make_unique<Independent>();
    case Kind::kSma:
      break;
  }
  return NewSma(algorithm_.sma, count, &model_, hosts);
}

int64_t Learners::Run(int64_t tasks, SchedulingPolicy policy, const Task& task,
                      const std::function<void(int)>& before_first) {
  scheduler_.Begin(tasks, policy);
  synchroniser_->BeginRun(set_.get(), &scheduler_);
  std::vector<std::thread> threads;
  for (int j = 0; j < scheduler_.participants(0); ++j) {
    threads.emplace_back([this, j, &task, &before_first] {
      if (before_first != nullptr) before_first(j);
      RunTasks(j, task);
    });
  }
  for (auto& thread : threads) thread.join();
  const int64_t completed = synchroniser_->EndRun();
  if (algorithm_.kind ==
      Kind::kSsgd) {  // learners that skipped it follow, as in a session
    for (int m = 0; m < kMembers; ++m) {
      const int present = synchroniser_->participants(set_->variable(m)).front();
      for (auto& replica : replicas_) {
        std::copy_n(replicas_[present][m].data(), kSizes[m], replica[m].data());
      }
    }
  }
  return completed;
}

int64_t Learners::Run(int64_t tasks) {
  return Run(tasks, SchedulingPolicy::kRoundRobin,
             [this](int j, int64_t task, int64_t) { return Train(j, task); });
}

void Learners::RunTasks(int learner, const Task& task) {
  auto assignment = scheduler_.Next(learner);
  while (assignment.has_value() && !synchroniser_->pace(learner).Aborted()) {
    if (!synchroniser_->pace(learner).BeforeTask()) return;
    switch (task(learner, assignment->task, assignment->iteration)) {
      case End::kFailed:
        return synchroniser_->pace(learner).Abort();
      case End::kNoData:
        synchroniser_->pace(learner).Skip();
        return;
      case End::kTrained:
        if (!synchroniser_->pace(learner).AfterTask()) return;
    }
    assignment = scheduler_.Next(learner);
  }
}

Learners::End Learners::Train(int learner, int64_t task) {
  for (int m = 0; m < kMembers; ++m) {
    if (Skips(task, m)) continue;
    if (!Add(learner, m, StepOf(task, m))) return End::kFailed;
  }
  return End::kTrained;
}

bool Learners::Skips(int64_t task, int member) const {
  const int64_t number = algorithm_.kind == Kind::kSsgd ? task / count() : task;
  return skips_ && (number + member) % 3 == 0;
}

bool Learners::Add(int learner, int member, float step) {
  const bool by_itself = update_ != Update::kByTheSynchroniser;
  if (algorithm_.kind == Kind::kSsgd) {
    return by_itself ? AddMeanForAll(learner, member, step)
                     : AddMean(learner, member, step);
  }
  if (by_itself) return AddWithCorrection(learner, member, step);
  for (float& w : replicas_[learner][member]) w += step;
  return true;
}

// Works as FusedUpdateKernel::UpdateOwn().
bool Learners::AddWithCorrection(int learner, int member, float step) {
  float* const w = replicas_[learner][member].data();
  const CentralModel::Variable& variable = model_.variable(set_->variable(member));
  const int num_slices = variable.num_slices();
  for (int i = 0; i < num_slices; ++i) {
    const int s = synchroniser_->updates(learner).SliceAt(i, num_slices);
    if (!synchroniser_->updates(learner).Enter(member, s)) return false;
    const float* const z = synchroniser_->updates(learner).Target<float>(member);
    const auto alpha =
        static_cast<float>(synchroniser_->updates(learner).Alpha(member));
    const CentralModel::Slice slice = variable.slice(s);
    for (int64_t e = slice.begin; e < slice.end; ++e) {
      w[e] = z == nullptr ? w[e] + step : w[e] + step - alpha * (w[e] - z[e]);
    }
  }
  synchroniser_->updates(learner).Updated(member);
  return true;
}

bool Learners::AddMean(int learner, int member, float step) {
  std::vector<float>& w = replicas_[learner][member];
  const std::vector<float> own(w.size(), step);
  std::vector<float> mean(w.size());
  if (!ReduceGradient(synchroniser_->exchange(learner), member, ElementType::kFloat32,
                      static_cast<int64_t>(w.size()), own.data(), mean.data())) {
    return false;
  }
  for (size_t i = 0; i < w.size(); ++i) w[i] += mean[i];
  return true;
}

// Works as FusedUpdateKernel::UpdateForAll().
bool Learners::AddMeanForAll(int learner, int member, float step) {
  struct Share {
    float step;
    float* w;
  };
  const Share mine{step, replicas_[learner][member].data()};
  const int point = set_->update_point(member);
  const auto shares = synchroniser_->exchange(learner).AllGather(point, &mine);
  if (shares.empty()) return false;
  float mean = 0;
  for (const void* s : shares) mean += static_cast<const Share*>(s)->step;
  mean *= 1.0f / static_cast<float>(shares.size());
  const auto place = std::find(shares.begin(), shares.end(), &mine) - shares.begin();
  CentralModel::Variable& variable = model_.variable(set_->variable(member));
  for (int s = 0; s < variable.num_slices(); ++s) {
    if ((member + s) % static_cast<int64_t>(shares.size()) != place) continue;
    const CentralModel::Slice slice = variable.slice(s);
    for (const void* share : shares) {
      float* const w = static_cast<const Share*>(share)->w;
      for (int64_t e = slice.begin; e < slice.end; ++e) w[e] += mean;
    }
    variable.AverageNext(s, mine.w + slice.begin);
  }
  synchroniser_->exchange(learner).Release(point);
  synchroniser_->updates(learner).Updated(member);
  return true;
}

void Learners::Collect() {
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_EQ(synchroniser_->Collect(set_->variable(m), set_->replicas(m)), "");
  }
}

std::vector<float> Learners::Central() const {
  std::vector<float> all;
  for (int m = 0; m < kMembers; ++m) {
    std::vector<float> z(kSizes[m]);
    model_.CopyTo(set_->variable(m), CentralModel::Which::kZ, z.data());
    all.insert(all.end(), z.begin(), z.end());
  }
  return all;
}

std::vector<float> Learners::Replica(int learner) const {
  std::vector<float> all;
  for (const auto& w : replicas_[learner]) all.insert(all.end(), w.begin(), w.end());
  return all;
}

std::vector<std::vector<float>> Learners::Outcome() {
  Collect();
  std::vector<std::vector<float>> outcome;
  for (int j = 0; j < count(); ++j) outcome.push_back(Replica(j));
  for (int m = 0; m < kMembers; ++m) {
    const CentralModel::Variable& v = model_.variable(set_->variable(m));
    for (const float* kept : {v.z<float>(), v.average<float>()}) {
      if (kept != nullptr) outcome.emplace_back(kept, kept + v.size());
    }
  }
  return outcome;
}

}  // namespace tensorbow
