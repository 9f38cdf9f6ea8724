// The base of the forms of SMA (sma.h): corrections towards z, and replicas set to it.
// For their files only.
#ifndef TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_BASE_H_
#define TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_BASE_H_

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/arithmetic/correction_passes.h"
#include "cc/central_model/central_model.h"
#include "cc/support/aligned_buffer.h"
#include "cc/support/element.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/algorithms/sma.h"

namespace tensorbow {

class Sma : public Algorithm {
 public:
  Sma(const SmaOptions& options, int num_learners, CentralModel* central)
      : traits_(TraitsOfSma(options)),
        alpha_(options.alpha),
        central_(central),
        corrections_(num_learners) {}

  const Traits& traits() const override { return traits_; }
  double Alpha(int variable) const override { return alpha_; }
  void SetAlpha(double alpha) override { alpha_ = alpha; }

  void Remember(int learner, const TrainedSet& set, int member) override {
    const CentralModel::Variable& v = variable(set, member);
    AlignedBuffer& correction = corrections_[learner][set.variable(member)];
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      if (correction.data() == nullptr)
        correction = AlignedBuffer(v.size() * sizeof(A));
      Correction<S>(Weights<S>(set, learner, member), v.template z<A>(),
                    static_cast<A>(Alpha(set.variable(member))), v.size(),
                    correction.as<A>());
    });
  }

  void Correct(int learner, const TrainedSet& set, int member,
               bool remembered) override {
    const CentralModel::Variable& v = variable(set, member);
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      S* const w = Weights<S>(set, learner, member);
      if (remembered) {
        const AlignedBuffer& c = corrections_[learner][set.variable(member)];
        Subtract<S>(c.as<A>(), v.size(), w);
      } else {
        tensorbow::Correct<S>(v.template z<A>(),
                              static_cast<A>(Alpha(set.variable(member))), v.size(), w);
      }
    });
  }

  void Reset(const TrainedSet& set, int member, const std::vector<int>& learners,
             const std::vector<int>& participants) override {
    BringUpToDate(set.variable(member), set.replicas(member), participants);
    for (int j : learners) {
      central_->CopyTo(set.variable(member), CentralModel::Which::kZ,
                       set.weights(j, member));
    }
  }

  std::string Collect(int variable, const std::vector<void*>& replicas,
                      const std::vector<int>& participants) override {
    BringUpToDate(variable, replicas, participants);
    return "";
  }

 protected:
  // Brings z of all slices up to date with the completed iterations, from the replicas.
  virtual void BringUpToDate(int variable, const std::vector<void*>& replicas,
                             const std::vector<int>& participants) = 0;

  bool IsUpToDate(int variable) const {
    const CentralModel::Variable& v = central_->variable(variable);
    bool all = true;
    for (int s = 0; s < v.num_slices(); ++s) all &= v.up_to_date(s);
    return all;
  }
  CentralModel::Variable& variable(const TrainedSet& set, int member) const {
    return central_->variable(set.variable(member));
  }
  CentralModel& central() const { return *central_; }

  template <typename S>
  static S* Weights(const TrainedSet& set, int learner, int member) {
    return static_cast<S*>(set.weights(learner, member));
  }
  // Returns the replicas of all learners, from element `begin` on.
  template <typename S>
  static std::vector<const S*> AllFrom(const TrainedSet& set, int member,
                                       int64_t begin) {
    std::vector<const S*> w;
    for (void* replica : set.replicas(member)) {
      w.push_back(static_cast<const S*>(replica) + begin);
    }
    return w;
  }
  // Returns a slice of the replicas of some learners.
  template <typename S>
  static std::vector<const S*> SlicesOf(const std::vector<void*>& replicas,
                                        const std::vector<int>& learners,
                                        int64_t begin) {
    std::vector<const S*> slices;
    for (int j : learners) slices.push_back(static_cast<const S*>(replicas[j]) + begin);
    return slices;
  }

  const Traits traits_;
  double alpha_;

 private:
  CentralModel* const central_;  // not owned
  // Stored corrections, in the accumulation type, by learner and variable. Only the
  // learner's thread touches its own.
  std::vector<std::map<int, AlignedBuffer>> corrections_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_ALGORITHMS_SMA_BASE_H_
