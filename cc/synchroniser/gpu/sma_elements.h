// SMA's arithmetic on a GPU, element by element: what each thread of a kernel does. The
// same code compiles for the CPU, where tests hold it against cc/synchroniser/sma.cc:
// both compute the same bits.
//
// The formulas are sma.h's. Of every variable a GPU keeps two values at addresses that
// never change:
//
//                 at rest             while iteration i is under way
//   next          z_i                 z_{i+1}, if every learner takes part
//   current       z_{i-1}             z_i, which learners correct towards
//
// kAdvance leads from the left to the right. A trained set's variables are worked on in
// blocks, one for each thread block of a kernel.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_SMA_ELEMENTS_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_SMA_ELEMENTS_H_

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

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
  void* current;
  void* next;
  void* average;   // null if none is kept
  int64_t flat;    // where its elements begin among those of its accumulation type
  int32_t packed;  // whether all replicas are aligned to kSmaWidth elements
};

// A trained set on one GPU; all pointers are device memory.
struct SmaTable {
  const SmaBlock* blocks;
  const SmaMember* members;
  const void* const* weights;  // [member][learner], those of this GPU in their order
  int num_learners;            // on this GPU
};

// What a kernel does with every element of its blocks. `flat` holds an element for each
// of the set's.
enum class SmaPass {
  kAdvance,  // Σ_j α (w_j − z), over this GPU's learners, and on to the next iteration
  kSum,      // flat ← Σ_j α (w_j − z), z being `next`
  kAdvanceBy,  // kAdvance with the sum from flat
  kExclude,    // next ← next − α (w − z), z being `current` and w one learner's
  kAddAbsent,  // flat ← flat + α (w − z), the same
  kExcludeBy,  // next ← next − flat
  kRestart,    // all w_j ← next, current ← next
  kDiscard,    // next ← current
};

struct SmaArguments {
  double alpha = 0;
  double momentum = 0;
  double average_decay =
      -1;  // for kAdvance and kAdvanceBy; negative: leaves the average
  void* flat = nullptr;
  int learner = 0;  // on this GPU, for kExclude and kAddAbsent
};

// How many elements a thread handles at a time where they are aligned.
constexpr int kSmaWidth = 4;

template <typename T>
struct alignas(sizeof(T) * kSmaWidth < 16 ? sizeof(T) * kSmaWidth : 16) SmaPack {
  T values[kSmaWidth];
};

// One element from and to the storage type. The GPU has instructions for 16 bits; they
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

// W elements, W being 1 or kSmaWidth (then aligned to as many).
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

// sum ← Σ_j α (w_j − z), j in order, of the elements from i on.
template <typename S, int W, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE void SumCorrections(const void* const* weights, int num_learners,
                                          const A (&z)[W], A alpha, int64_t i,
                                          A (&sum)[W]) {
  for (int j = 0; j < num_learners; ++j) {
    A w[W];
    Load<S, W>(static_cast<const S*>(weights[j]) + i, w);
    for (int k = 0; k < W; ++k) {
      const A c = alpha * (w[k] - z[k]);
      sum[k] = j == 0 ? c : sum[k] + c;
    }
  }
}

// current ← z, next ← z + sum + μ (z − z_prev), average ← d·average + (1 − d)·z, with z
// what was `next` and z_prev what was `current`.
template <int W, typename A>
TENSORBOW_HOST_DEVICE void Advance(const SmaMember& member, const SmaArguments& a,
                                   const A (&z)[W], const A (&sum)[W], int64_t i) {
  A* const current = static_cast<A*>(member.current) + i;
  const A momentum = static_cast<A>(a.momentum);
  A next[W];
  for (int k = 0; k < W; ++k) next[k] = z[k] + sum[k];
  if (momentum != A(0)) {
    A z_prev[W];
    Load<A, W>(current, z_prev);
    for (int k = 0; k < W; ++k) next[k] = next[k] + momentum * (z[k] - z_prev[k]);
  }
  Store<A, W>(z, current);
  Store<A, W>(next, static_cast<A*>(member.next) + i);
  if (member.average == nullptr || a.average_decay < 0) return;
  A* const average = static_cast<A*>(member.average) + i;
  const A d = static_cast<A>(a.average_decay);
  A mean[W];
  Load<A, W>(average, mean);
  for (int k = 0; k < W; ++k) mean[k] = d * mean[k] + (1 - d) * z[k];
  Store<A, W>(mean, average);
}

// A pass over the W elements from i on.
template <SmaPass pass, typename S, int W>
TENSORBOW_HOST_DEVICE void SmaElements(const SmaMember& member,
                                       const void* const* weights, int num_learners,
                                       const SmaArguments& a, int64_t i) {
  using A = Accumulator<S>;
  const A alpha = static_cast<A>(a.alpha);
  A* const current = static_cast<A*>(member.current) + i;
  A* const next = static_cast<A*>(member.next) + i;
  A* const flat = static_cast<A*>(a.flat) + member.flat + i;
  A z[W] = {}, sum[W] = {};
  if constexpr (pass == SmaPass::kAdvance) {
    Load<A, W>(next, z);
    SumCorrections<S, W>(weights, num_learners, z, alpha, i, sum);
    Advance<W>(member, a, z, sum, i);
  } else if constexpr (pass == SmaPass::kSum) {
    Load<A, W>(next, z);
    SumCorrections<S, W>(weights, num_learners, z, alpha, i, sum);
    Store<A, W>(sum, flat);
  } else if constexpr (pass == SmaPass::kAdvanceBy) {
    Load<A, W>(next, z);
    Load<A, W>(flat, sum);
    Advance<W>(member, a, z, sum, i);
  } else if constexpr (pass == SmaPass::kExclude) {
    Load<A, W>(current, z);
    SumCorrections<S, W>(weights + a.learner, 1, z, alpha, i, sum);
    A value[W];
    Load<A, W>(next, value);
    for (int k = 0; k < W; ++k) value[k] = value[k] - sum[k];
    Store<A, W>(value, next);
  } else if constexpr (pass == SmaPass::kAddAbsent) {
    Load<A, W>(current, z);
    SumCorrections<S, W>(weights + a.learner, 1, z, alpha, i, sum);
    A value[W];
    Load<A, W>(flat, value);
    for (int k = 0; k < W; ++k) value[k] = value[k] + sum[k];
    Store<A, W>(value, flat);
  } else if constexpr (pass == SmaPass::kExcludeBy) {
    Load<A, W>(next, z);
    Load<A, W>(flat, sum);
    for (int k = 0; k < W; ++k) z[k] = z[k] - sum[k];
    Store<A, W>(z, next);
  } else if constexpr (pass == SmaPass::kRestart) {
    Load<A, W>(next, z);
    for (int j = 0; j < num_learners; ++j) {
      Store<S, W>(z, static_cast<S*>(const_cast<void*>(weights[j])) + i);
    }
    Store<A, W>(z, current);
  } else {
    static_assert(pass == SmaPass::kDiscard);
    Load<A, W>(current, z);
    Store<A, W>(z, next);
  }
}

// What thread `thread` of `threads` does in one block.
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

// Corrections of updates that do not correct by themselves, one element:
// α (w − z), w − c, and w − α (w − z).
template <typename S, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE A CorrectionOf(S w, A z, A alpha) {
  return alpha * (FromStorage<S>(w) - z);
}
template <typename S, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE S Subtracted(S w, A correction) {
  return ToStorage<S>(FromStorage<S>(w) - correction);
}
template <typename S, typename A = Accumulator<S>>
TENSORBOW_HOST_DEVICE S Corrected(S w, A z, A alpha) {
  const A value = FromStorage<S>(w);
  return ToStorage<S>(value - alpha * (value - z));
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_SMA_ELEMENTS_H_
