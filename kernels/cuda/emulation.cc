#include "kernels/cuda/emulation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/block_program.h"

namespace stepwatch::kernels::cuda {
namespace {

// Runs 256 threads one after the other. A block takes one tile per turn: the program keeps no state between tiles, so
// this stands for any interleaving of blocks from tile to tile.
class HostBlock {
 public:
  template <class T>
  struct PerThread {
    std::array<T, kThreads> values{};
  };

  explicit HostBlock(uint32_t tile) : tile_(tile) {}
  uint32_t Index() const { return tile_; }
  uint32_t Count() const { return UINT32_MAX - tile_; }  // the loop over tiles ends after the first

  template <class T, class Function>
  void For(PerThread<T>& values, Function function) {
    for (int thread = 0; thread < kThreads; ++thread) function(values.values[static_cast<size_t>(thread)], thread);
  }

  // Each lane reads its partner's value, all at once, as a shuffle does.
  template <class T>
  void FoldWarps(PerThread<T>& values) {
    for (size_t mask = 16; mask > 0; mask /= 2) {
      const PerThread<T> before = values;
      for (size_t i = 0; i < kThreads; ++i) values.values[i] = Join(before.values[i], before.values[i ^ mask]);
    }
  }

  template <class T>
  T FoldLeaders(PerThread<T>& values, bool bad, bool* alarm) {
    *alarm = bad;
    PerThread<T> warp;
    for (T& value : warp.values) Clear(&value);
    for (size_t i = 0; i < kWarps; ++i) warp.values[i] = values.values[32 * i];
    // The device folds only the sums among 32 lanes; counts of the absent lanes are zero either way.
    FoldWarps(warp);
    return warp.values[0];
  }

  NonFinite AddUp(PerThread<NonFinite>& counts) {
    NonFinite all;
    for (const NonFinite& mine : counts.values) {
      all.nans += mine.nans;
      all.infs += mine.infs;
    }
    return all;
  }

  template <class Function>
  bool Once(Function function) {
    return function();
  }

  uint32_t Peek(const uint32_t* word) const { return *word; }
  void Store(Partial* to, const Partial& value) const { *to = value; }
  Partial Read(const Partial* from) const { return *from; }
  bool DrawsLast(uint32_t* counter, uint32_t total) const {
    const bool last = (*counter)++ == total - 1;
    if (last) *counter = 0;
    return last;
  }
  void Withdraw(ResultSlot* slot) const {
    std::atomic_ref(slot->sequence).store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  void Write(ResultSlot* slot, const Partial& totals, uint64_t sequence) const {
    // A reader may look while a row of a graph is being overwritten; it then detects this and discards the copy.
    StoreRelaxed(&slot->totals.sum, totals.sum);
    StoreRelaxed(&slot->totals.sum_of_squares, totals.sum_of_squares);
    StoreRelaxed(&slot->totals.low, totals.low);
    StoreRelaxed(&slot->totals.high, totals.high);
    StoreRelaxed(&slot->totals.zeros, totals.zeros);
    StoreRelaxed(&slot->totals.nans, totals.nans);
    StoreRelaxed(&slot->totals.infs, totals.infs);
    std::atomic_ref(slot->sequence).store(sequence, std::memory_order_release);
  }

 private:
  template <class T>
  static void StoreRelaxed(T* to, T value) {
    std::atomic_ref(*to).store(value, std::memory_order_relaxed);
  }

  uint32_t tile_;
};

void RunTile(KernelId kernel, const Launch& launch, uint32_t tile) {
  HostBlock block(tile);
  using Half = PairFormat<Float16Codes, false>;
  using Brain = PairFormat<BFloat16Codes, false>;
  using E4M3 = PairFormat<Float8E4M3Codes, false>;
  using E5M2 = PairFormat<Float8E5M2Codes, false>;
  switch (kernel) {
    case KernelId::kFloat64: return MeasureTensors<Float64Format>(block, launch);
    case KernelId::kFloat32: return MeasureTensors<Float32Format<false>>(block, launch);
    case KernelId::kFloat16: return MeasureTensors<Half>(block, launch);
    case KernelId::kBFloat16: return MeasureTensors<Brain>(block, launch);
    case KernelId::kFloat8E4M3: return MeasureTensors<E4M3>(block, launch);
    case KernelId::kFloat8E5M2: return MeasureTensors<E5M2>(block, launch);
    case KernelId::kInteger64: return MeasureTensors<IntegerFormat<8>>(block, launch);
    case KernelId::kInteger32: return MeasureTensors<IntegerFormat<4>>(block, launch);
    case KernelId::kInteger16: return MeasureTensors<IntegerFormat<2>>(block, launch);
    case KernelId::kInteger8: return MeasureTensors<IntegerFormat<1>>(block, launch);
    case KernelId::kFloat32Tree: return MeasureTensorsByTrees<Float32Format<true>, Float32Format<false>>(block, launch);
    case KernelId::kFloat16Tree: return MeasureTensorsByTrees<PairFormat<Float16Codes, true>, Half>(block, launch);
    case KernelId::kBFloat16Tree: return MeasureTensorsByTrees<PairFormat<BFloat16Codes, true>, Brain>(block, launch);
    case KernelId::kFloat8E4M3Tree:
      return MeasureTensorsByTrees<PairFormat<Float8E4M3Codes, true>, E4M3>(block, launch);
    case KernelId::kFloat8E5M2Tree:
      return MeasureTensorsByTrees<PairFormat<Float8E5M2Codes, true>, E5M2>(block, launch);
    case KernelId::kAgreement: return CompareSigns(block, launch);
  }
}

}  // namespace

void Emulate(KernelId kernel, const Launch& launch, uint32_t grid, uint64_t seed) {
  std::mt19937_64 random(seed);
  // The next tile of each block that is still running.
  std::vector<uint32_t> next(std::min(grid, launch.tile_count));
  std::iota(next.begin(), next.end(), 0u);
  while (!next.empty()) {
    const size_t turn = random() % next.size();
    RunTile(kernel, launch, next[turn]);
    if (launch.tile_count - next[turn] > grid) {
      next[turn] += grid;
    } else {
      next[turn] = next.back();
      next.pop_back();
    }
  }
}

}  // namespace stepwatch::kernels::cuda
