// AveragingLearners with replicas of some variables, one after another on one thread:
// on the CPU, and on GPUs of the fake CUDA. The tests compare their outcomes.
#ifndef TENSORBOW_TESTS_CC_GPU_LEARNERS_H_
#define TENSORBOW_TESTS_CC_GPU_LEARNERS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/reducer/host_reducer.h"
#include "cc/support/aligned_buffer.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/gpu/gpu_sma.h"
#include "cc/synchroniser/synchroniser.h"
#include "tests/cc/fake_cuda.h"

namespace tensorbow {

using Centre = SmaOptions::Centre;

struct Settings {
  struct Variable {
    ElementType type;
    int64_t size;
    bool corrects_itself;
  };

  std::vector<int> ordinals;  // of the learners' GPUs
  SmaOptions sma = {Centre::kCurrent, 0.25, /*period=*/1, /*momentum=*/0};
  double ema_decay = 0;
  std::vector<Variable> variables = {
      {ElementType::kFloat32, 2 * SmaBlock::kElements + 5, true},
      {ElementType::kFloat64, 130, true},
      {ElementType::kFloat16, 4097, false},
      {ElementType::kFloat32, 3, false},
      {ElementType::kBfloat16, 64, false},
      {ElementType::kFloat32, 0, true}};

  int num_learners() const { return static_cast<int>(ordinals.size()); }
};

// Learners that average; a subclass makes the updates.
class AveragingLearners {
 public:
  explicit AveragingLearners(const Settings& settings)
      : settings_(settings),
        model_(KeptBySma(settings.sma.centre), settings.ema_decay),
        scheduler_(settings.num_learners()),
        replicas_(settings.variables.size()) {
    std::mt19937 random(7);
    std::vector<int> all;
    for (const Settings::Variable& variable : settings_.variables) {
      const int v = model_.Add(variable.type, variable.size);
      const AlignedBuffer initial(variable.size * 8 + 8);
      WithStorageType(variable.type, [&](auto* storage) {
        using S = std::remove_pointer_t<decltype(storage)>;
        for (int64_t i = 0; i < variable.size; ++i) {
          initial.as<S>()[i] = S(static_cast<float>(random() % 1000) / 1000 - 0.5f);
        }
        for (int j = 0; j < num_learners(); ++j) {
          buffers_.emplace_back((variable.size + 1) * sizeof(S));
          // Some replicas are aligned only to their elements.
          replicas_[v].push_back(buffers_.back().as<S>() + (j == 0 ? 0 : 1));
          std::memcpy(replicas_[v][j], initial.data(), variable.size * sizeof(S));
        }
      });
      model_.Assign(v, initial.data());
      all.push_back(v);
    }
    all_ = NewSet(all);
    set_ = all_.get();
  }
  virtual ~AveragingLearners() = default;

  std::unique_ptr<TrainedSet> NewSet(const std::vector<int>& variables) const {
    auto set = std::make_unique<TrainedSet>(num_learners(), variables);
    for (int m = 0; m < set->size(); ++m) {
      const int v = variables[m];
      if (settings_.variables[v].corrects_itself) set->set_corrects_itself(m);
      for (int j = 0; j < num_learners(); ++j) set->set_weights(j, m, replicas_[v][j]);
    }
    return set;
  }

  // Executes a run of `tasks` tasks. In its last iteration, or the given one, the
  // learners from `first_absent` on find no data. Or learner `first_failing` aborts,
  // and the learners after it do nothing.
  int64_t Run(int64_t tasks, int first_absent = -1, int first_failing = -1,
              int64_t special = -1) {
    scheduler_.Begin(tasks, SchedulingPolicy::kRoundRobin);
    synchroniser_->BeginRun(set_, &scheduler_);
    const int64_t iterations = scheduler_.num_iterations();
    for (int64_t iteration = 0; iteration < iterations; ++iteration, ++time_) {
      const bool is_special = iteration == (special < 0 ? iterations - 1 : special);
      for (int j = 0; j < scheduler_.participants(iteration); ++j) {
        if (is_special && first_failing >= 0 && j >= first_failing) {
          if (j == first_failing) synchroniser_->pace(j).Abort();
          continue;
        }
        if (!synchroniser_->pace(j).BeforeTask()) continue;
        if (is_special && first_absent >= 0 && j >= first_absent) {
          synchroniser_->pace(j).Skip();
          continue;
        }
        Task(j);
        synchroniser_->pace(j).AfterTask();
      }
    }
    return synchroniser_->EndRun();
  }
  // Executes a run over some of the variables.
  int64_t RunOver(TrainedSet* set, int64_t tasks) {
    set_ = set;
    const int64_t completed = Run(tasks);
    set_ = all_.get();
    return completed;
  }

  // Executes the learner's task: updates every member, or sometimes skips it.
  virtual void Task(int learner) {
    for (int m = 0; m < set_->size(); ++m) {
      if ((time_ + learner + m) % 5 != 4) Train(learner, m);
    }
  }

  // Sets a learner's replica to a value, between runs.
  void Write(int learner, int variable, float value) {
    const ElementType type = settings_.variables[variable].type;
    Execute(learner, [=] {
      WithStorageType(type, [&](auto* storage) {
        using S = std::remove_pointer_t<decltype(storage)>;
        S* const w = static_cast<S*>(replicas_[variable][learner]);
        std::fill_n(w, settings_.variables[variable].size, S(value));
      });
    });
  }

  void Restart() { synchroniser_->Restart(*set_); }
  // Updates the model, as a read between runs does.
  void Collect() {
    for (int v = 0; v < static_cast<int>(replicas_.size()); ++v) {
      ASSERT_EQ(synchroniser_->Collect(v, replicas_[v]), "");
    }
  }

  // Returns the outcome: replicas, and the arrays of the model.
  std::vector<std::vector<char>> Outcome() {
    Collect();
    Settle();
    std::vector<std::vector<char>> outcome;
    const auto add = [&](const void* data, int64_t size_bytes) {
      const char* const bytes = static_cast<const char*>(data);
      if (bytes != nullptr) outcome.emplace_back(bytes, bytes + size_bytes);
    };
    for (size_t i = 0; i < replicas_.size(); ++i) {
      const CentralModel::Variable& v = model_.variable(i);
      const int64_t z_bytes = v.size() * AccumulatorSizeBytes(v.type());
      for (const void* w : replicas_[i]) add(w, v.size() * ElementSizeBytes(v.type()));
      add(v.z<char>(), z_bytes);
      add(v.previous<char>(), z_bytes);
      add(v.average<char>(), z_bytes);
    }
    return outcome;
  }

  int num_learners() const { return settings_.num_learners(); }
  CentralModel& model() { return model_; }
  Synchroniser& synchroniser() { return *synchroniser_; }
  TrainedSet& set() { return *set_; }

 protected:
  virtual void Train(int learner, int member) = 0;
  virtual void Settle() {}
  // Executes work after all earlier work of the learner.
  virtual void Execute(int learner, const std::function<void()>& work) { work(); }

  const Settings::Variable& SettingsOf(int member) const {
    return settings_.variables[set_->variable(member)];
  }
  // Returns the update of element i.
  float Update(int learner, int64_t i) const {
    return 0.001f * static_cast<float>((i * 7 + learner * 5 + time_ * 3) % 23 - 11);
  }
  // w ← w + u without a correction.
  void Add(int learner, ElementType type, int64_t size, void* weights) {
    WithStorageType(type, [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      S* const w = static_cast<S*>(weights);
      for (int64_t i = 0; i < size; ++i) {
        w[i] = S(static_cast<float>(w[i]) + Update(learner, i));
      }
    });
  }
  // w ← w + u − α (w − z) of elements [begin, end).
  template <typename T>
  void AddAndCorrect(int learner, T* w, const T* z, int64_t begin, int64_t end) {
    const T alpha = static_cast<T>(settings_.sma.alpha);
    for (int64_t i = begin; i < end; ++i) {
      const T before = w[i];
      const T after = before + Update(learner, i);
      w[i] = z == nullptr ? after : after - alpha * (before - z[i]);
    }
  }

  const Settings settings_;
  CentralModel model_;
  TaskScheduler scheduler_;
  std::vector<AlignedBuffer> buffers_;
  std::vector<std::vector<void*>> replicas_;  // [variable][learner]
  std::unique_ptr<TrainedSet> all_;
  TrainedSet* set_;  // of the run
  std::unique_ptr<Synchroniser> synchroniser_;
  int64_t time_ = 0;
};

constexpr std::chrono::microseconds kNoSpin(0);

class CpuLearners : public AveragingLearners {
 public:
  explicit CpuLearners(const Settings& settings) : AveragingLearners(settings) {
    synchroniser_ =
        std::make_unique<Synchroniser>(num_learners(), &model_, kNoSpin,
                                       NewSma(settings.sma, num_learners(), &model_));
  }

 protected:
  void Train(int learner, int member) override {
    const CentralModel::Variable& variable =
        synchroniser_->updates(learner).variable(member);
    void* const w = set_->weights(learner, member);
    if (!set_->corrects_itself(member)) {
      return Add(learner, variable.type(), variable.size(), w);
    }
    WithStorageType(variable.type(), [&](auto* storage) {
      using T = std::remove_pointer_t<decltype(storage)>;
      if constexpr (std::is_same_v<T, Accumulator<T>>) {
        for (int s = 0; s < variable.num_slices(); ++s) {
          if (!synchroniser_->updates(learner).Enter(member, s)) return;
          const CentralModel::Slice slice = variable.slice(s);
          AddAndCorrect(learner, static_cast<T*>(w),
                        synchroniser_->updates(learner).Target<T>(member), slice.begin,
                        slice.end);
        }
        synchroniser_->updates(learner).Updated(member);
      }
    });
  }
};

class GpuLearners : public AveragingLearners {
 public:
  explicit GpuLearners(const Settings& settings) : AveragingLearners(settings) {
    std::vector<LearnerStream> learners;
    for (const int ordinal : settings.ordinals) {
      learners.push_back({ordinal, fake_cuda::NewStream(ordinal)});
      streams_.push_back(learners.back().stream);
    }
    const std::vector<int> gpus = OrdinalsOf(learners);
    auto reducer = gpus.size() > 1 ? std::make_unique<HostReducer>(gpus)
                                   : std::unique_ptr<HostReducer>();
    auto sma = std::make_unique<GpuSma>(settings.sma, std::move(learners), &model_,
                                        std::move(reducer));
    GpuSma* const queue = sma.get();
    synchroniser_ = std::make_unique<Synchroniser>(num_learners(), &model_, kNoSpin,
                                                   std::move(sma), queue);
  }
  // Enqueued work refers to the learners, so it must end first.
  ~GpuLearners() override { synchroniser_.reset(); }

  void Task(int learner) override {
    // Reads the weights some time after the task before, as a forward pass would.
    fake_cuda::Enqueue(streams_[learner], [] {});
    AveragingLearners::Task(learner);
  }

 protected:
  void Train(int learner, int member) override {
    const int64_t time = time_;
    const auto later = [=](auto work) {
      fake_cuda::Enqueue(streams_[learner], [=] {
        const int64_t now = std::exchange(time_, time);
        work();
        time_ = now;
      });
    };
    const ElementType type = SettingsOf(member).type;
    const int64_t size = SettingsOf(member).size;
    void* const w = set_->weights(learner, member);
    if (!set_->corrects_itself(member)) {
      return later([=] { Add(learner, type, size, w); });
    }
    if (!synchroniser_->updates(learner).EnterAll(member)) return;
    const void* const z = synchroniser_->updates(learner).DeviceTarget(member);
    WithStorageType(type, [&](auto* storage) {
      using T = std::remove_pointer_t<decltype(storage)>;
      if constexpr (std::is_same_v<T, Accumulator<T>>) {
        later([=] {
          AddAndCorrect(learner, static_cast<T*>(w), static_cast<const T*>(z), 0, size);
        });
      }
    });
    synchroniser_->updates(learner).Updated(member);
  }
  void Settle() override { fake_cuda::Drain(); }
  void Execute(int learner, const std::function<void()>& work) override {
    fake_cuda::Enqueue(streams_[learner], work);
  }

  std::vector<void*> streams_;
};

constexpr int kSeeds = 8;

// Executes the scenario on both and compares their outcomes, for several orders of
// execution.
inline void ExpectSame(const Settings& settings,
                       const std::function<void(AveragingLearners&)>& scenario) {
  CpuLearners cpu(settings);
  scenario(cpu);
  const auto expected = cpu.Outcome();
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    GpuLearners gpu(settings);
    scenario(gpu);
    const auto outcome = gpu.Outcome();
    ASSERT_EQ(gpu.synchroniser().error(), "");
    ASSERT_EQ(outcome.size(), expected.size());
    for (size_t i = 0; i < outcome.size(); ++i) {
      ASSERT_EQ(outcome[i], expected[i]) << "value " << i << ", seed " << seed;
    }
    for (int v = 0; v < cpu.model().num_variables(); ++v) {
      ASSERT_EQ(gpu.model().variable(v).iterations(),
                cpu.model().variable(v).iterations());
    }
  }
}

inline Settings OneGpu(Centre centre, int learners) {
  Settings settings;
  settings.ordinals.assign(learners, 0);
  settings.sma.centre = centre;
  settings.sma.alpha = 1.0 / learners;
  settings.sma.momentum = centre == Centre::kLagging ? 0.5 : 0;
  return settings;
}

inline std::string NameOf(Centre centre) {
  return centre == Centre::kCurrent ? "Current" : "Lagging";
}

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_GPU_LEARNERS_H_
