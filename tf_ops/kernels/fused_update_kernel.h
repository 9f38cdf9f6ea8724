// The CPU kernel of the fused updates (fused_update_kernels.cc). It checks its inputs
// as TensorFlow's kernels do, and lets cc/arithmetic do the work slice by slice, as the
// synchroniser allows. Under S-SGD all learners make the same update; each makes it for
// all in some of the slices, of one shared copy or of every learner's copy. Without a
// synchroniser (`member` is -1) a learner updates its own variables.
#ifndef TENSORBOW_TF_OPS_KERNELS_FUSED_UPDATE_KERNEL_H_
#define TENSORBOW_TF_OPS_KERNELS_FUSED_UPDATE_KERNEL_H_

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "cc/arithmetic/update_rules.h"
#include "cc/device/learner_device.h"
#include "cc/support/prefetch.h"
#include "cc/synchroniser/learner_exchange.h"
#include "cc/synchroniser/update_access.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"
#include "tf_ops/kernels/learner_errors.h"
#include "tf_ops/kernels/update_inputs.h"
#include "tf_ops/kernels/update_operand.h"
#include "tf_ops/kernels/variable_input.h"

namespace tensorbow {

// The meaning of an op's inputs (update_inputs.h).
struct UpdateInputs {
  static constexpr int kMaxSlots = 4;

  int slots;
  int operand;
  absl::Span<const ScalarInput> scalars;
  int first_slot = 1;

  // Returns the input of the variable (0) or a slot (from 1 on).
  int variable(int i) const { return i == 0 ? 0 : first_slot + i - 1; }
};

// The kernel for elements of type `T` in cc/arithmetic.
template <typename T>
class FusedUpdateKernel : public tensorflow::OpKernel {
 public:
  // `keeps_without_gradient`: whether the update changes no element without a gradient
  // (see update_steps.h).
  FusedUpdateKernel(tensorflow::OpKernelConstruction* construction,
                    const UpdateInputs& inputs, bool keeps_without_gradient)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())),
        inputs_(inputs),
        keeps_without_gradient_(keeps_without_gradient) {
    OP_REQUIRES_OK(construction, construction->GetAttr("member", &member_));
    OP_REQUIRES(construction, member_ < 0 || device_ != nullptr, OnLearnersOnly(*this));
    if (construction->HasAttr("use_locking")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("use_locking", &use_locking_));
    }
    OP_REQUIRES_OK(construction, construction->GetAttr("transpose", &transpose_));
    OP_REQUIRES_OK(construction, construction->GetAttr("shared", &shared_));
    OP_REQUIRES_OK(construction, construction->GetAttr("averaged", &averaged_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const bool alone = device_ == nullptr || member_ < 0;
    const UpdateAccess access(alone ? nullptr : device_->synchroniser(),
                              alone ? 0 : device_->learner());
    const TrainedSet* const set = access.set();
    const bool for_all = set != nullptr && access.averages_gradients();
    OP_REQUIRES(context,
                member_ < 0 || (set != nullptr &&
                                member_ < (for_all ? set->num_updates() : set->size())),
                OutsideLearningRun(*this));

    const bool in_set = member_ >= 0 && member_ < set->size();
    std::optional<ScopedActivity> updating;
    if (set != nullptr) {
      updating.emplace(access.activity(), Activity::kUpdate,
                       in_set ? set->variable(member_) : -1);
    }
    Variables variables;
    VariableLocks locks;
    for (int i = 0; i <= inputs_.slots; ++i) {
      OP_REQUIRES_OK(context,
                     VariableInput::Open(context, inputs_.variable(i), &variables[i]));
      // Shared variables are accessed in this update only.
      if (shared_) continue;
      if (variables[i].is_resource() || use_locking_) locks.Add(variables[i].mu());
    }
    locks.Lock();

    // A learner that synchronises the iteration before may still read the old buffer.
    if (member_ >= 0 && !for_all && variables[0].shared() &&
        !access.EnterAll(member_)) {
      context->SetStatus(Discarded());
      return;
    }
    Tensors tensors;
    OP_REQUIRES_OK(context, GetTensors(context, variables, &tensors));
    UpdateOperand<T> operand;
    OP_REQUIRES_OK(context, UpdateOperand<T>::Open(context, inputs_.operand, transpose_,
                                                   &operand));
    OP_REQUIRES_OK(context, CheckShapes(context, tensors, operand));
    for (const tensorflow::Tensor& tensor : tensors) {
      OP_REQUIRES_OK(context, operand.DetachFrom(context, tensor));
    }
    if (for_all) operand.SetShare(access.share());
    OP_REQUIRES_OK(context, operand.Prepare(context));

    OP_REQUIRES(context,
                !in_set || access.variable(member_).size() == tensors[0].NumElements(),
                absl::FailedPreconditionError(absl::StrCat(
                    requested_input(0), " changed its shape during a learning run")));
    OP_REQUIRES_OK(context, WithRule(context, [&](Rule rule) -> absl::Status {
                     if (member_ < 0) {
                       UpdateAlone(context, rule, operand, tensors);
                       return absl::OkStatus();
                     }
                     if (!for_all) return UpdateOwn(access, rule, operand, tensors);
                     TF_RETURN_IF_ERROR(operand.PrepareMean(context));
                     return UpdateForAll(access, rule, operand, tensors);
                   }));
    if (shared_) {
      for (int i = 0; i <= inputs_.slots; ++i) {
        device_->held_mutexes().Unlock(variables[i].mu());
      }
    }
    if (in_set) access.Updated(member_);
    if (!variables[0].is_resource()) context->forward_ref_input_to_ref_output(0, 0);
  }

 protected:
  using Slots = std::array<T*, UpdateInputs::kMaxSlots>;
  // Updates `n` elements that start at `w` and `slots`.
  using Rule = absl::FunctionRef<void(int64_t n, const T* operand, Pull<T> pull, T* w,
                                      const Slots& slots)>;

 private:
  // The variable comes first, followed by its slots.
  using Variables = std::array<VariableInput, 1 + UpdateInputs::kMaxSlots>;
  using Tensors = std::array<tensorflow::Tensor, 1 + UpdateInputs::kMaxSlots>;

  // Calls `use` with the update that inputs and attributes define; returns its status.
  virtual absl::Status WithRule(tensorflow::OpKernelContext* context,
                                absl::FunctionRef<absl::Status(Rule)> use) const = 0;

  // Gets the variable's and its slots' buffers, which may be changed.
  absl::Status GetTensors(tensorflow::OpKernelContext* context,
                          const Variables& variables, Tensors* tensors) const {
    for (int i = 0; i <= inputs_.slots; ++i) {
      tensorflow::Tensor* const tensor = &(*tensors)[i];
      if (shared_) {
        *tensor = variables[i].Present();
      } else {
        TF_RETURN_IF_ERROR(variables[i].Tensor(use_locking_, CopyElements, tensor));
      }
      if (!tensor->IsInitialized()) {
        return absl::FailedPreconditionError(
            absl::StrCat("Attempting to use uninitialized variables: ",
                         requested_input(inputs_.variable(i))));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckShapes(tensorflow::OpKernelContext* context, const Tensors& tensors,
                           const UpdateOperand<T>& operand) const {
    for (const auto& [index, scalar] : inputs_.scalars) {
      const tensorflow::TensorShape& shape = context->input(index).shape();
      if (!tensorflow::TensorShapeUtils::IsScalar(shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat(scalar, " is not a scalar: ", shape.DebugString()));
      }
    }
    const tensorflow::TensorShape& shape = tensors[0].shape();
    const auto same = [&](int input, const tensorflow::TensorShape& other) {
      if (shape.IsSameSize(other)) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          "var and ", requested_input(input), " do not have the same shape",
          shape.DebugString(), " ", other.DebugString()));
    };
    for (int i = 1; i <= inputs_.slots; ++i) {
      TF_RETURN_IF_ERROR(same(inputs_.variable(i), tensors[i].shape()));
    }
    return same(inputs_.operand, operand.shape());
  }

  // Calls `change(part)` for the parts of a slice that must be visited: all of it,
  // unless only some rows have a gradient and nothing else changes the others.
  template <typename Change>
  void ForEachPart(const std::vector<const UpdateOperand<T>*>& operands,
                   const CentralModel::Slice& slice, bool corrects,
                   const Change& change) const {
    if (!keeps_without_gradient_ || corrects || !operands[0]->has_rows()) {
      return change(slice);
    }
    for (const CentralModel::Slice& part : UpdateOperand<T>::PartsOf(operands, slice)) {
      change(part);
    }
  }

  // Updates variables that are not synchronised; large ones on all threads of the
  // device.
  void UpdateAlone(tensorflow::OpKernelContext* context, Rule rule,
                   UpdateOperand<T>& operand, const Tensors& tensors) const {
    const int64_t size = tensors[0].NumElements();
    const int num_slices = CentralModel::NumSlices(size);
    if (!operand.is_whole() && (keeps_without_gradient_ || !operand.has_rows())) {
      for (int s = 0; s < num_slices; ++s) {
        ForEachPart({&operand}, CentralModel::SliceOf(size, s),
                    /*corrects=*/false, [&](const CentralModel::Slice& part) {
                      Update(rule, part, operand.At(part), {}, tensors);
                    });
      }
      return;
    }
    const tensorflow::DeviceBase::CpuWorkerThreads& threads =
        *context->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(
        threads.num_threads, threads.workers, num_slices,
        /*cost_per_unit=*/4 * CentralModel::kSliceElements,
        [&](int64_t begin, int64_t end) {
          std::vector<T> values(
              operand.is_whole()
                  ? 0
                  : std::min(size, int64_t{CentralModel::kSliceElements}));
          for (int64_t s = begin; s < end; ++s) {
            const auto slice = CentralModel::SliceOf(size, static_cast<int>(s));
            if (!operand.is_whole()) operand.Read(slice, values.data());
            Update(rule, slice, operand.is_whole() ? operand.At(slice) : values.data(),
                   {}, tensors);
          }
        });
  }

  // Updates the learner's own variables.
  absl::Status UpdateOwn(const UpdateAccess& access, Rule rule,
                         UpdateOperand<T>& operand, const Tensors& tensors) const {
    const int learner = device_->learner();
    TrainedSet* const set = access.set();
    if (set->weights(learner, member_) != tensors[0].data()) {
      if (!access.EnterAll(member_)) return Discarded();
      set->set_weights(learner, member_, tensors[0].data());
    }
    const CentralModel::Variable& variable = access.variable(member_);
    const int at_once = operand.slices_at_once();
    const int num_blocks = (variable.num_slices() + at_once - 1) / at_once;
    for (int i = 0; i < num_blocks; ++i) {
      const int first = access.SliceAt(i, num_blocks) * at_once;
      const int end = std::min(first + at_once, variable.num_slices());
      for (int s = first; s < end; ++s) {
        if (!access.Enter(member_, s)) return Discarded();
        const CentralModel::Slice slice = variable.slice(s);
        const Accumulator<T>* const z = access.template Target<Accumulator<T>>(member_);
        operand.AddInputGradient(slice, Elements(tensors[0]) + slice.begin);
        ForEachPart({&operand}, slice, z != nullptr,
                    [&](const CentralModel::Slice& part) {
                      Pull<T> pull;
                      if (z != nullptr) {
                        pull = {z + part.begin,
                                static_cast<Accumulator<T>>(access.Alpha(member_))};
                      }
                      Update(rule, part, operand.At(part), pull, tensors);
                    });
      }
    }
    return absl::OkStatus();
  }

  // A learner's contribution to an update for all.
  struct Share {
    const UpdateOperand<T>* operand;
    const Tensors* tensors;
  };

  // Returns the part of slice `s` that the learner at `place` among `count` updates:
  // all or nothing; if there is no other slice, an equal part of it.
  CentralModel::Slice OwnPart(const UpdateOperand<T>& operand, int64_t size, int s,
                              int place, int count) const {
    constexpr int64_t kMinDivided = 2048, kLine = 64 / sizeof(T);
    const CentralModel::Slice slice = CentralModel::SliceOf(size, s);
    if (slice.size() == size && size >= kMinDivided && operand.is_whole()) {
      const int64_t lines = (size + kLine - 1) / kLine;
      return {lines * place / count * kLine,
              std::min(size, lines * (place + 1) / count * kLine)};
    }
    const bool own = (member_ + s / operand.slices_at_once()) % count == place;
    return own ? slice : CentralModel::Slice{slice.begin, slice.begin};
  }

  // Updates a part of all learners' variables with the mean of their operands, while
  // the others update the rest. The first learner's variables are the model: eager code
  // may have written them since the run began, but not while their learner holds the
  // locks.
  absl::Status UpdateForAll(const UpdateAccess& access, Rule rule,
                            UpdateOperand<T>& operand, const Tensors& tensors) const {
    const Share mine{&operand, &tensors};
    const LearnerExchange exchange(device_->synchroniser(), device_->learner());
    const int point = access.set()->update_point(member_);
    const auto shares = exchange.AllGather(point, &mine);
    if (shares.empty()) return Discarded();
    const auto count = static_cast<int>(shares.size());
    const auto place = static_cast<int>(std::find(shares.begin(), shares.end(), &mine) -
                                        shares.begin());
    const Tensors& model = *static_cast<const Share*>(shares.front())->tensors;
    std::vector<const UpdateOperand<T>*> operands;
    std::vector<const Tensors*> copies;
    const int64_t size = tensors[0].NumElements();
    const bool in_set = member_ < access.set()->size();  // has an average
    bool alike = true;
    for (const void* brought : shares) {
      const auto* const share = static_cast<const Share*>(brought);
      operands.push_back(share->operand);
      if (share->tensors != &model && !shared_) copies.push_back(share->tensors);
      alike &= (*share->tensors)[0].NumElements() == size;
    }

    for (int s = 0; alike && s < CentralModel::NumSlices(size); ++s) {
      const CentralModel::Slice slice = CentralModel::SliceOf(size, s);
      const CentralModel::Slice own = OwnPart(operand, size, s, place, count);
      if (own.size() == 0) continue;
      ForEachPart(operands, own, /*corrects=*/false,
                  [&](const CentralModel::Slice& part) {
                    // Fetches memory that the others have read.
                    if (shared_ || &tensors != &model) {
                      for (int i = 0; i <= inputs_.slots; ++i) Prefetch(model[i], part);
                    }
                    for (const Tensors* copy : copies) {
                      if (copy != &tensors) Prefetch((*copy)[0], part);
                    }
                    const T* const mean =
                        averaged_ ? operand.At(part) : operand.MeanAt(operands, part);
                    Update(rule, part, mean, Pull<T>(), model);
                    for (const Tensors* copy : copies) {
                      for (int i = 0; i <= inputs_.slots; ++i) {
                        std::copy_n(Elements(model[i]) + part.begin, part.size(),
                                    Elements((*copy)[i]) + part.begin);
                      }
                    }
                  });
      if (in_set && own.size() == slice.size()) {
        access.variable(member_).AverageNext(s, Elements(model[0]) + slice.begin);
      }
    }
    exchange.Release(point);
    return alike ? absl::OkStatus()
                 : absl::FailedPreconditionError(
                       absl::StrCat(requested_input(0),
                                    " does not have the same size in all learners"));
  }

  void Update(Rule rule, const CentralModel::Slice& slice, const T* operand,
              Pull<T> pull, const Tensors& tensors) const {
    const int64_t begin = slice.begin;
    Slots slots{};
    for (int i = 0; i < inputs_.slots; ++i) slots[i] = Elements(tensors[1 + i]) + begin;
    rule(slice.size(), operand, pull, Elements(tensors[0]) + begin, slots);
  }

  static void Prefetch(const tensorflow::Tensor& tensor,
                       const CentralModel::Slice& slice) {
    PrefetchForWriting(Elements(tensor) + slice.begin,
                       slice.size() * int64_t{sizeof(T)});
  }

  static T* Elements(const tensorflow::Tensor& tensor) {
    return static_cast<T*>(tensor.data());
  }

  LearnerDevice* const device_;
  const UpdateInputs inputs_;
  const bool keeps_without_gradient_;
  int member_ = 0;
  bool use_locking_ = false;
  bool transpose_ = false;  // of the operand, if it is a product
  bool shared_ = false;     // all learners share one copy
  bool averaged_ = false;   // all learners have the same gradient
};

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_FUSED_UPDATE_KERNEL_H_
