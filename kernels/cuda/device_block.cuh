// Implements the Block of block_program.h with 256 device threads.
#pragma once

#include "kernels/cuda/block_program.h"

namespace stepwatch::kernels::cuda {

inline constexpr unsigned kAllLanes = 0xffffffff;

template <class T>
__device__ __forceinline__ T LeastOfWarp(T x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const T y = __shfl_xor_sync(kAllLanes, x, mask);
    x = y < x ? y : x;
  }
  return x;
}
template <class T>
__device__ __forceinline__ T GreatestOfWarp(T x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const T y = __shfl_xor_sync(kAllLanes, x, mask);
    x = y > x ? y : x;
  }
  return x;
}
// Folds by halves: every lane ends with the bits of the same tree, because a + b equals b + a bit for bit, doubles
// included.
template <class T>
__device__ __forceinline__ T SumOfWarp(T x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(kAllLanes, x, mask);
  return x;
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // one instruction for 32 bits
__device__ __forceinline__ int32_t LeastOfWarp(int32_t x) {
  return __reduce_min_sync(kAllLanes, x);
}
__device__ __forceinline__ int32_t GreatestOfWarp(int32_t x) {
  return __reduce_max_sync(kAllLanes, x);
}
__device__ __forceinline__ uint32_t SumOfWarp(uint32_t x) {
  return __reduce_add_sync(kAllLanes, x);
}
#endif

template <class Key>
__device__ __forceinline__ void FoldWarp(ThreadTotals<Key>& value) {
  value.sum = SumOfWarp(value.sum);
  value.sum_of_squares = SumOfWarp(value.sum_of_squares);
  value.low = LeastOfWarp(value.low);
  value.high = GreatestOfWarp(value.high);
  value.zeros = SumOfWarp(value.zeros);
}
__device__ __forceinline__ void FoldWarp(Partial& value) {
  value.sum = SumOfWarp(value.sum);
  value.sum_of_squares = SumOfWarp(value.sum_of_squares);
  value.low = LeastOfWarp(value.low);
  value.high = GreatestOfWarp(value.high);
  value.zeros = SumOfWarp(value.zeros);
  value.nans = SumOfWarp(value.nans);
  value.infs = SumOfWarp(value.infs);
}

struct SharedMemory {
  Partial leaders[kWarps];  // large enough for ThreadTotals too
  uint32_t counts[2];
  int answers[2];
};

class DeviceBlock {
 public:
  template <class T>
  struct PerThread {
    T value;
  };

  __device__ __forceinline__ explicit DeviceBlock(SharedMemory& shared) : shared_(shared) {
    if (threadIdx.x < 2) shared_.counts[threadIdx.x] = 0;  // visible to all after the first fold
  }

  __device__ __forceinline__ uint32_t Index() const { return blockIdx.x; }
  __device__ __forceinline__ uint32_t Count() const { return gridDim.x; }

  template <class T, class Function>
  __device__ __forceinline__ void For(PerThread<T>& values, Function function) {
    function(values.value, static_cast<int>(threadIdx.x));
  }

  // All 32 threads of a warp take part, so the mask is full.
  template <class T>
  __device__ __forceinline__ void FoldWarps(PerThread<T>& values) {
    FoldWarp(values.value);
  }

  // Zeros stand for the 24 lanes of warp 0 that have no warp: x + 0.0 is x, since no sum here can be -0.0.
  template <class T>
  __device__ __forceinline__ T FoldLeaders(PerThread<T>& values, bool bad, bool* alarm) {
    T* leaders = reinterpret_cast<T*>(shared_.leaders);
    if (threadIdx.x % 32 == 0) leaders[threadIdx.x / 32] = values.value;
    *alarm = __syncthreads_or(bad) != 0;
    if (threadIdx.x < 32) {
      if (threadIdx.x < kWarps)
        values.value = leaders[threadIdx.x];
      else
        Clear(&values.value);
      FoldWarp(values.value);
    }
    return values.value;
  }

  // The result is known to the leader.
  __device__ __forceinline__ NonFinite AddUp(PerThread<NonFinite>& counts) {
    const uint32_t nans = SumOfWarp(counts.value.nans), infs = SumOfWarp(counts.value.infs);
    __syncthreads();  // the zeros of the constructor, or of the previous call, are visible
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&shared_.counts[0], nans);
      atomicAdd(&shared_.counts[1], infs);
    }
    __syncthreads();
    NonFinite found;
    if (threadIdx.x == 0) {  // the other threads could read after the reset
      found = {shared_.counts[0], shared_.counts[1]};
      shared_.counts[0] = shared_.counts[1] = 0;
    }
    return found;
  }

  // Results alternate between two words, so that one barrier is enough: before a word is written again, all threads
  // have passed the barrier of the other.
  template <class Function>
  __device__ __forceinline__ bool Once(Function function) {
    turn_ ^= 1;
    if (threadIdx.x == 0) shared_.answers[turn_] = function() ? 1 : 0;
    __syncthreads();
    return shared_.answers[turn_] != 0;
  }

  __device__ __forceinline__ uint32_t Peek(const uint32_t* word) const {
    return *const_cast<const volatile uint32_t*>(word);
  }
  // Partials pass between blocks through the L2.
  __device__ __forceinline__ void Store(Partial* to, const Partial& value) const { *to = value; }
  __device__ __forceinline__ Partial Read(const Partial* from) const {
    return {__ldcg(&from->sum),   __ldcg(&from->sum_of_squares), Cached(&from->low), Cached(&from->high),
            Cached(&from->zeros), Cached(&from->nans),           Cached(&from->infs)};
  }
  // The fence before the draw publishes this partial to the block that draws the last; the one after lets that block
  // read the others'.
  __device__ __forceinline__ bool DrawsLast(uint32_t* counter, uint32_t total) const {
    __threadfence();
    const bool last = atomicAdd(counter, 1u) == total - 1;
    if (last) *counter = 0;
    __threadfence();
    return last;
  }
  // A reader that looks now finds no result, rather than a mix of old and new.
  __device__ __forceinline__ void Withdraw(ResultSlot* slot) const {
    *const_cast<volatile uint64_t*>(&slot->sequence) = 0;
    __threadfence_system();
  }
  __device__ __forceinline__ void Write(ResultSlot* slot, const Partial& totals, uint64_t sequence) const {
    *const_cast<volatile double*>(&slot->totals.sum) = totals.sum;
    *const_cast<volatile double*>(&slot->totals.sum_of_squares) = totals.sum_of_squares;
    *const_cast<volatile int64_t*>(&slot->totals.low) = totals.low;
    *const_cast<volatile int64_t*>(&slot->totals.high) = totals.high;
    *const_cast<volatile int64_t*>(&slot->totals.zeros) = totals.zeros;
    *const_cast<volatile int64_t*>(&slot->totals.nans) = totals.nans;
    *const_cast<volatile int64_t*>(&slot->totals.infs) = totals.infs;
    __threadfence_system();
    *const_cast<volatile uint64_t*>(&slot->sequence) = sequence;
  }

 private:
  static __device__ __forceinline__ int64_t Cached(const int64_t* from) {
    return __ldcg(reinterpret_cast<const long long*>(from));
  }

  SharedMemory& shared_;
  int turn_ = 0;
};

// `launch` stays in the constant bank: its address is taken, it is never copied.
#define STEPWATCH_KERNEL(Name, ...)                                           \
  __global__ void __launch_bounds__(stepwatch::kernels::cuda::kThreads, 4)    \
      Name(const __grid_constant__ stepwatch::kernels::cuda::Launch launch) { \
    __shared__ stepwatch::kernels::cuda::SharedMemory shared;                 \
    stepwatch::kernels::cuda::DeviceBlock block(shared);                      \
    stepwatch::kernels::cuda::__VA_ARGS__(block, launch);                     \
  }

}  // namespace stepwatch::kernels::cuda
