#include "cc/synchroniser/ssgd.h"

#include <algorithm>
#include <type_traits>

#include "cc/arithmetic/mean.h"

namespace tensorbow {

void Ssgd::Prepare(const TrainedSet& set) {
  const int num_points = set.num_gradients() + set.num_updates();
  if (num_points_ < num_points) {
    num_points_ = num_points;
    points_ = std::make_unique<Point[]>(num_points_);
  }
  Reset();
}

void Ssgd::Reset() {
  for (int i = 0; i < num_points_; ++i) {
    points_[i].brought.assign(num_learners(), nullptr);
    points_[i].arrived.store(0, std::memory_order_relaxed);
    points_[i].staying.store(0, std::memory_order_relaxed);
  }
}

std::vector<const void*> Ssgd::Meet(int learner, int point, const void* brought) {
  if (!AwaitTurn(learner)) return {};
  Point& p = points_[point];
  p.brought[learner] = brought;
  p.staying.fetch_add(1, std::memory_order_relaxed);
  p.arrived.fetch_add(1, std::memory_order_acq_rel);
  gate()->Notify();
  const int expected = participants(learner);
  gate()->Await([&] {
    return p.arrived.load(std::memory_order_acquire) >= expected || Aborted(learner);
  });
  if (p.arrived.load(std::memory_order_acquire) < expected) return {};
  // Everybody has arrived: nobody can abort this iteration between here and its end.
  std::vector<const void*> all;
  std::copy_if(p.brought.begin(), p.brought.end(), std::back_inserter(all),
               [](const void* b) { return b != nullptr; });
  return all;
}

void Ssgd::Part(int point) {
  Point& p = points_[point];
  p.staying.fetch_sub(1, std::memory_order_acq_rel);
  gate()->Notify();
  gate()->Await([&] { return p.staying.load(std::memory_order_acquire) == 0; });
}

bool Ssgd::Reduce(int learner, int gradient, ElementType type, int64_t n,
                  const void* own, void* mean) {
  const std::vector<const void*> all = Meet(learner, gradient, own);
  if (all.empty()) return false;
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    std::vector<const S*> values;
    for (const void* v : all) values.push_back(static_cast<const S*>(v));
    Mean(values.data(), static_cast<int>(values.size()), n, static_cast<S*>(mean));
  });
  Part(gradient);
  return true;
}

void Ssgd::Leaving(int learner) {
  const int num_points = set()->num_gradients() + set()->num_updates();
  for (int i = 0; i < num_points; ++i) {
    if (points_[i].brought[learner] == nullptr) {
      points_[i].arrived.fetch_add(1, std::memory_order_acq_rel);
    }
  }
  gate()->Notify();
}

void Ssgd::Completing(int present) {
  Reset();
  if (present < 0) return;
  for (int member = 0; member < set()->size(); ++member) {
    CentralModel::Variable& variable = central()->variable(set()->variable(member));
    if (!set()->corrects_itself(member)) {
      const char* const weights =
          static_cast<const char*>(set()->weights(present, member));
      for (int s = 0; s < variable.num_slices(); ++s) {
        variable.TakeInNext(
            s, weights + variable.slice(s).begin * ElementSizeBytes(variable.type()));
      }
    }
    variable.Follow();
  }
}

}  // namespace tensorbow
