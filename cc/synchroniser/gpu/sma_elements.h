// SMA's arithmetic on a GPU, element by element: the work of each thread of a kernel.
// The same code compiles for the CPU, where tests compare it with
// cc/synchroniser/algorithms/sma.cc: both compute the same bits.
//
// The formulas are sma.h's. The values of a variable on a GPU have fixed addresses:
//
//   centre              at rest          while iteration i is under way
//   current   target    z_{i-1}          z_i, which learners correct towards
//   lagging   target    z_{i-1}          z_i, which learners correct towards
//             next      z_i              z_{i+1}, if every learner takes part
//
// kMean leads from the left to the right for the current centre, kAdvance for the
// lagging one. Each thread block of a kernel works on one block of a trained set's
// variables.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_SMA_ELEMENTS_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_SMA_ELEMENTS_H_

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "cc/arithmetic/correction.h"
#include "cc/support/element.h"
#include "cc/support/host_device.h"

namespace tensorbow {

// Elements [begin, begin + size) of a member.
struct SmaBlock {
  static constexpr int kElements = 4096;
  int64_t begin;
  int32_t member;
  int32_t size;  // at most kElements
};

// A member of a trained set on one GPU. Values are in the accumulation type.
struct SmaMember {
  void* target;
  void* next;            // null for the current centre
  void* average;         // null if none is kept
  int64_t flat;          // its begin among the elements of its accumulation type
  int32_t packed;        // whether all replicas are aligned to kSmaWidth elements
  int32_t participants;  // on all GPUs
};

// A trained set on one GPU; all pointers are device memory.
struct SmaTable {
  const SmaBlock* blocks;
  const SmaMember* members;
  // [member][learner of this GPU]; null for a learner that did not take part.
  const void* const* weights;
  int num_learners;  // on this GPU
};

// A kernel's work on every element of its blocks. `flat` has an element for each of the
// set's; GPUs add it up.
enum class SmaPass {
  // The current centre, over the participants:
  kMean,         // target ← mean_j w_j
  kSumReplicas,  // flat ← Σ_j w_j, over this GPU's learners
  kMeanBy,       // kMean with the sum from flat
  // The lagging centre:
  kAdvance,         // Σ_j α (w_j − z), and on to the next iteration
  kSumCorrections,  // flat ← Σ_j α (w_j − z), over this GPU's learners, z being `next`
  kAdvanceBy,       // kAdvance with the sum from flat
  kExclude,         // next ← next − α (w − z), z being `target` and w one learner's
  kAddIdle,         // flat ← flat + α (w − z), with z and w as for kExclude
  kExcludeBy,       // next ← next − flat
  kDiscard,         // next ← target
};

struct SmaArguments {
  double alpha = 0;
  double momentum = 0;
  // Used by kMean, kMeanBy, kAdvance and kAdvanceBy; negative: keeps the average.
  double average_decay = -1;
  void* flat = nullptr;
  int learner = 0;  // on this GPU, for kExclude and kAddIdle
};

// The elements that a thread handles at a time if they are aligned.
constexpr int kSmaWidth = 4;

template <typename T>
struct alignas(sizeof(T) * kSmaWidth < 16 ? sizeof(T) * kSmaWidth : 16) SmaPack {
  T values[kSmaWidth];
};

// Convert one element from and to the storage type. The GPU's instructions for 16 bits
// round as float16.h does.
template <typename S>
TENSORBOW_HOST_DEVICE Accumulator<S> FromStorage(S value) {
  return static_cast<Accumulator<S>>(value);
}
template <typename S>
TENSORBOW_HOST_DEVICE S ToStorage(Accumulator<S> value) {
  return static_cast<S>(value);
}
template <>
TENSORBOW_HOST_DEVICE float FromStorage<Half>(Half value) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(value.bits));
#else
  return static_cast<float>(value);
#endif
}
template <>
TENSORBOW_HOST_DEVICE Half ToStorage<Half>(float value) {
#ifdef __CUDA_ARCH__
  Half half;
  half.bits = __half_as_ushort(__float2half_rn(value));
  return half;
#else
  return Half(value);
#endif
}
template <>
TENSORBOW_HOST_DEVICE float FromStorage<Bfloat16>(Bfloat16 value) {
#ifdef __CUDA_ARCH__
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
#else
  return static_cast<float>(value);
#endif
}
template <>
TENSORBOW_HOST_DEVICE Bfloat16 ToStorage<Bfloat16>(float value) {
#ifdef __CUDA_ARCH__
  Bfloat16 bfloat16;
  bfloat16.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
  return bfloat16;
#else
  return Bfloat16(value);
#endif
}

// Copy W elements, W being 1 or kSmaWidth (then aligned to as many).
template <typename S, int W>
TENSORBOW_HOST_DEVICE void Load(const S* from, Accumulator<S> (&to)[W]) {
  if constexpr (W == 1) {
    to[0] = FromStorage<S>(*from);
  } else {
    const SmaPack<S> pack = *reinterpret_cast<const SmaPack<S>*>(from);
    for (int k = 0; k < W; ++k) to[k] = FromStorage<S>(pack.values[k]);
  }
}
template <typename S, int W>
TENSORBOW_HOST_DEVICE void Store(const Accumulator<S> (&from)[W], S* to) {
  if constexpr (W == 1) {
    *to = ToStorage<S>(from[0]);
  } else {
    SmaPack<S> pack;
    for (int k = 0; k < W; ++k) pack.values[k] = ToStorage<S>(from[k]);
    *reinterpret_cast<SmaPack<S>*>(to) = pack;
  }
}

template <typename A>
TENSORBOW_HOST_DEVICE A* At(void* values, int64_t i) {
  return static_cast<A*>(values) + i;
}

// sum ← Σ_j α (w_j − z), j in order, of the elements from i on.
template <typename S, int W, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE void SumCorrections(const void* const* weights, int num_learners,
                                          const A (&z)[W], A alpha, int64_t i,
                                          A (&sum)[W]) {
  for (int j = 0; j < num_learners; ++j) {
    A w[W];
    Load<S, W>(static_cast<const S*>(weights[j]) + i, w);
    for (int k = 0; k < W; ++k) {
      const A c = CorrectionOf(w[k], z[k], alpha);
      sum[k] = j == 0 ? c : sum[k] + c;
    }
  }
}

// sum ← Σ_j w_j, j in order, of the elements from i on, over the participants.
// REQUIRES: `sum` is 0.
template <typename S, int W, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE void SumReplicas(const void* const* weights, int num_learners,
                                       int64_t i, A (&sum)[W]) {
  bool first = true;
  for (int j = 0; j < num_learners; ++j) {
    if (weights[j] == nullptr) continue;
    A w[W];
    Load<S, W>(static_cast<const S*>(weights[j]) + i, w);
    for (int k = 0; k < W; ++k) sum[k] = first ? w[k] : sum[k] + w[k];
    first = false;
  }
}

// average ← d·average + (1 − d)·z
template <int W, typename A>
TENSORBOW_HOST_DEVICE void MoveAverage(const SmaMember& member, const SmaArguments& a,
                                       const A (&z)[W], int64_t i) {
  if (member.average == nullptr || a.average_decay < 0) return;
  A* const average = At<A>(member.average, i);
  const A d = static_cast<A>(a.average_decay);
  A mean[W];
  Load<A, W>(average, mean);
  for (int k = 0; k < W; ++k) mean[k] = d * mean[k] + (1 - d) * z[k];
  Store<A, W>(mean, average);
}

// target ← z = sum / participants; moves the average.
template <int W, typename A>
TENSORBOW_HOST_DEVICE void Mean(const SmaMember& member, const SmaArguments& a,
                                const A (&sum)[W], int64_t i) {
  const A scale = A(1) / static_cast<A>(member.participants);
  A z[W];
  for (int k = 0; k < W; ++k) z[k] = sum[k] * scale;
  Store<A, W>(z, At<A>(member.target, i));
  MoveAverage<W>(member, a, z, i);
}

// target ← z, next ← z + sum + μ (z − z_prev); moves the average. z is the old `next`,
// z_prev the old `target`.
template <int W, typename A>
TENSORBOW_HOST_DEVICE void Advance(const SmaMember& member, const SmaArguments& a,
                                   const A (&z)[W], const A (&sum)[W], int64_t i) {
  A* const target = At<A>(member.target, i);
  const A momentum = static_cast<A>(a.momentum);
  A next[W];
  for (int k = 0; k < W; ++k) next[k] = z[k] + sum[k];
  if (momentum != A(0)) {
    A z_prev[W];
    Load<A, W>(target, z_prev);
    for (int k = 0; k < W; ++k) next[k] = next[k] + momentum * (z[k] - z_prev[k]);
  }
  Store<A, W>(z, target);
  Store<A, W>(next, At<A>(member.next, i));
  MoveAverage<W>(member, a, z, i);
}

// Makes a pass over the W elements from i on.
template <SmaPass pass, typename S, int W>
TENSORBOW_HOST_DEVICE void SmaElements(const SmaMember& member,
                                       const void* const* weights, int num_learners,
                                       const SmaArguments& a, int64_t i) {
  using A = Accumulator<S>;
  const A alpha = static_cast<A>(a.alpha);
  A z[W] = {}, sum[W] = {};
  if constexpr (pass == SmaPass::kMean) {
    SumReplicas<S, W>(weights, num_learners, i, sum);
    Mean<W>(member, a, sum, i);
  } else if constexpr (pass == SmaPass::kSumReplicas) {
    SumReplicas<S, W>(weights, num_learners, i, sum);
    Store<A, W>(sum, At<A>(a.flat, member.flat + i));
  } else if constexpr (pass == SmaPass::kMeanBy) {
    Load<A, W>(At<A>(a.flat, member.flat + i), sum);
    Mean<W>(member, a, sum, i);
  } else if constexpr (pass == SmaPass::kAdvance) {
    Load<A, W>(At<A>(member.next, i), z);
    SumCorrections<S, W>(weights, num_learners, z, alpha, i, sum);
    Advance<W>(member, a, z, sum, i);
  } else if constexpr (pass == SmaPass::kSumCorrections) {
    Load<A, W>(At<A>(member.next, i), z);
    SumCorrections<S, W>(weights, num_learners, z, alpha, i, sum);
    Store<A, W>(sum, At<A>(a.flat, member.flat + i));
  } else if constexpr (pass == SmaPass::kAdvanceBy) {
    Load<A, W>(At<A>(member.next, i), z);
    Load<A, W>(At<A>(a.flat, member.flat + i), sum);
    Advance<W>(member, a, z, sum, i);
  } else if constexpr (pass == SmaPass::kExclude) {
    Load<A, W>(At<A>(member.target, i), z);
    SumCorrections<S, W>(weights + a.learner, 1, z, alpha, i, sum);
    A value[W];
    Load<A, W>(At<A>(member.next, i), value);
    for (int k = 0; k < W; ++k) value[k] = value[k] - sum[k];
    Store<A, W>(value, At<A>(member.next, i));
  } else if constexpr (pass == SmaPass::kAddIdle) {
    Load<A, W>(At<A>(member.target, i), z);
    SumCorrections<S, W>(weights + a.learner, 1, z, alpha, i, sum);
    A value[W];
    Load<A, W>(At<A>(a.flat, member.flat + i), value);
    for (int k = 0; k < W; ++k) value[k] = value[k] + sum[k];
    Store<A, W>(value, At<A>(a.flat, member.flat + i));
  } else if constexpr (pass == SmaPass::kExcludeBy) {
    Load<A, W>(At<A>(member.next, i), z);
    Load<A, W>(At<A>(a.flat, member.flat + i), sum);
    for (int k = 0; k < W; ++k) z[k] = z[k] - sum[k];
    Store<A, W>(z, At<A>(member.next, i));
  } else {
    static_assert(pass == SmaPass::kDiscard);
    Load<A, W>(At<A>(member.target, i), z);
    Store<A, W>(z, At<A>(member.next, i));
  }
}

// Calls f(SmaPassConstant<pass>()).
template <SmaPass pass>
using SmaPassConstant = std::integral_constant<SmaPass, pass>;
template <typename F>
decltype(auto) WithPass(SmaPass pass, F f) {
  switch (pass) {
    case SmaPass::kMean:
      return f(SmaPassConstant<SmaPass::kMean>());
    case SmaPass::kSumReplicas:
      return f(SmaPassConstant<SmaPass::kSumReplicas>());
    case SmaPass::kMeanBy:
      return f(SmaPassConstant<SmaPass::kMeanBy>());
    case SmaPass::kAdvance:
      return f(SmaPassConstant<SmaPass::kAdvance>());
    case SmaPass::kSumCorrections:
      return f(SmaPassConstant<SmaPass::kSumCorrections>());
    case SmaPass::kAdvanceBy:
      return f(SmaPassConstant<SmaPass::kAdvanceBy>());
    case SmaPass::kExclude:
      return f(SmaPassConstant<SmaPass::kExclude>());
    case SmaPass::kAddIdle:
      return f(SmaPassConstant<SmaPass::kAddIdle>());
    case SmaPass::kExcludeBy:
      return f(SmaPassConstant<SmaPass::kExcludeBy>());
    case SmaPass::kDiscard:
      break;
  }
  return f(SmaPassConstant<SmaPass::kDiscard>());
}

// Executes the part of thread `thread` of `threads` in one block.
template <SmaPass pass, typename S>
TENSORBOW_HOST_DEVICE void RunSmaBlock(const SmaTable& table, const SmaArguments& a,
                                       int block_index, int thread, int threads) {
  const SmaBlock block = table.blocks[block_index];
  const SmaMember member = table.members[block.member];
  const void* const* weights =
      table.weights + int64_t{block.member} * table.num_learners;
  const int packs = member.packed ? block.size / kSmaWidth : 0;
  for (int p = thread; p < packs; p += threads) {
    SmaElements<pass, S, kSmaWidth>(member, weights, table.num_learners, a,
                                    block.begin + p * kSmaWidth);
  }
  for (int i = packs * kSmaWidth + thread; i < block.size; i += threads) {
    SmaElements<pass, S, 1>(member, weights, table.num_learners, a, block.begin + i);
  }
}

// Compute one stored element: α (w − z), w − c, and w − α (w − z).
template <typename S, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE A StoredCorrection(S w, A z, A alpha) {
  return CorrectionOf(FromStorage<S>(w), z, alpha);
}
template <typename S, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE S StoredDifference(S w, A correction) {
  return ToStorage<S>(FromStorage<S>(w) - correction);
}
template <typename S, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE S StoredCorrected(S w, A z, A alpha) {
  const A value = FromStorage<S>(w);
  return ToStorage<S>(Corrected(value, value, z, alpha));
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_SMA_ELEMENTS_H_
