// The work of a thread block, from its first tile to the last result; one source for the device and the emulation.
//
// A Block provides the operations of 256 threads: For runs a function once for each thread with a value of its own; the
// value of a PerThread fold is known to the leader, thread 0; Once runs a function on the leader alone, broadcasts its
// result, and is a barrier. Code outside of For is uniform across the threads of a block.
#pragma once

#include "kernels/cuda/fold.h"
#include "kernels/cuda/signs.h"
#include "kernels/cuda/tile.h"

namespace stepwatch::kernels::cuda {

// Threads are folded lane first, so the member whose number has the bits of the lane on top is folded by halves.
STEPWATCH_BOTH uint32_t MemberOf(int thread) {
  return static_cast<uint32_t>(thread % 32 * kWarps + thread / 32);
}

// The last entry that does not begin after `tile`.
STEPWATCH_DEVICE const Entry& FindEntry(const Launch& launch, uint32_t tile) {
  const Entry* entries = (launch.entries != nullptr ? launch.entries : launch.inline_entries) + launch.first_entry;
  uint32_t low = 0, high = launch.entry_count - 1;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (entries[middle].first_tile <= tile)
      low = middle;
    else
      high = middle - 1;
  }
  return entries[low];
}

template <int kElementBytes>
STEPWATCH_DEVICE Tile TileOf(const Launch& launch, const Entry& entry, uint32_t number) {
  const Shape* shapes = launch.shapes != nullptr ? launch.shapes : launch.inline_shapes;
  constexpr int kElements = kTileElements<kElementBytes>;
  const int64_t first = static_cast<int64_t>(number) * kElements;
  const int64_t left = entry.count - first;
  return {entry.data,  entry.count,         first, static_cast<int>(left < kElements ? left : kElements), entry.access,
          entry.dtype, shapes + entry.shape};
}

// Folds a PerThread value over the block; sets `alarm` if `is_bad` is true for any thread.
template <class T, class Block, class Bad>
STEPWATCH_DEVICE T FoldBlock(Block& block, typename Block::template PerThread<T>& values, Bad is_bad, bool* alarm) {
  bool bad = false;
  block.For(values, [&](T& value, int) { bad = bad || is_bad(value); });
  block.FoldWarps(values);
  return block.FoldLeaders(values, bad, alarm);
}

template <class T, class Block>
STEPWATCH_DEVICE T FoldBlock(Block& block, typename Block::template PerThread<T>& values) {
  bool alarm;
  return FoldBlock<T>(
      block, values, [](const T&) { return false; }, &alarm);
}

// Measures one tile. The result is known to the leader.
template <class Format, class Block>
STEPWATCH_DEVICE Partial MeasureTile(Block& block, const Launch& launch, const Tile& tile) {
  using Thread = decltype(Format::Fold(typename Format::Acc{}));
  typename Block::template PerThread<Thread> threads;
  block.For(threads, [&](Thread& mine, int thread) {
    typename Format::Acc acc;
    AddTile<Format>(tile, thread, launch.zero, &acc);
    mine = Format::Fold(acc);
  });
  bool alarm = false;
  const Thread folded = FoldBlock<Thread>(
      block, threads,
      [](const Thread& mine) {
        if constexpr (Format::kHiddenNan)
          return mine.high > static_cast<int32_t>(Format::kNanAbove) ||
                 (mine.low < -static_cast<int32_t>(Format::kNanAbove));
        else
          return Format::kCanBeNonFinite && !IsFinite(mine.sum_of_squares);
      },
      &alarm);
  Partial partial = {folded.sum, folded.sum_of_squares, folded.low, folded.high, folded.zeros, 0, 0};
  if constexpr (Format::kCanBeNonFinite) {
    if (alarm) {
      typename Block::template PerThread<NonFinite> counts;
      block.For(counts, [&](NonFinite& mine, int thread) { mine = CountNonFinite<Format>(tile, thread); });
      const NonFinite found = block.AddUp(counts);
      partial.nans = found.nans;
      partial.infs = found.infs;
      if (Format::kHiddenNan && found.nans > 0) partial.sum = partial.sum_of_squares = __builtin_nan("");
    }
  }
  return partial;
}

// Sums by trees of fp32, and repeats in fp64 where the squares leave the range of fp32.
template <class TreeFormat, class Format, class Block>
STEPWATCH_DEVICE Partial MeasureTileByTrees(Block& block, const Launch& launch, const Tile& tile) {
  Partial partial = MeasureTile<TreeFormat>(block, launch, tile);
  const bool again = block.Once([&] { return !TreeFormat::InTreeRange(partial); });
  if (again) partial = MeasureTile<Format>(block, launch, tile);
  return partial;
}

template <class Block>
STEPWATCH_DEVICE void Publish(Block& block, const Launch& launch, const Entry& entry, const Partial& totals) {
  if (launch.step == nullptr) {
    const uint64_t ticket = launch.base_ticket + entry.result;
    block.Write(launch.results + (ticket & launch.result_mask), totals, ticket + 1);
  } else {
    const uint64_t step = *launch.step;
    ResultSlot* slot = launch.results + step % launch.depth * launch.row_results + entry.result;
    block.Withdraw(slot);
    block.Write(slot, totals, step + 1);
  }
}

// Folds the tiles of the group whose last tile was just stored, and the groups if it was the last.
template <class Block>
STEPWATCH_DEVICE void FinishGroup(Block& block, const Launch& launch, const Entry& entry, uint32_t number,
                                  const Partial* tiles) {
  const uint32_t group = number / kGroupTiles;
  const uint32_t members =
      entry.tiles - group * kGroupTiles < kGroupTiles ? entry.tiles - group * kGroupTiles : kGroupTiles;
  const uint32_t groups = (entry.tiles + kGroupTiles - 1) / kGroupTiles;
  typename Block::template PerThread<Partial> values;
  block.For(values, [&](Partial& mine, int thread) {
    const uint32_t member = MemberOf(thread);
    mine = member < members ? block.Read(tiles + member) : NoElements();
  });
  const Partial folded = FoldBlock<Partial>(block, values);
  const bool last = block.Once([&] {
    if (groups == 1) {
      Publish(block, launch, entry, folded);
      return false;
    }
    block.Store(launch.group_partials + entry.groups_at + group, folded);
    return block.DrawsLast(launch.counters + entry.groups_at + groups, groups);
  });
  if (!last) return;
  block.For(values, [&](Partial& mine, int thread) {
    mine = NoElements();
    for (uint32_t i = MemberOf(thread); i < groups; i += kGroupTiles)
      mine = Join(mine, block.Read(launch.group_partials + entry.groups_at + i));
  });
  const Partial all = FoldBlock<Partial>(block, values);
  block.Once([&] { return Publish(block, launch, entry, all), false; });
}

// Calls measure(tile), which returns the tile's Partial to the leader.
template <int kElementBytes, class Block, class Measure>
STEPWATCH_DEVICE void ForEachTile(Block& block, const Launch& launch, Measure measure) {
  if (launch.off != nullptr && block.Peek(launch.off) != 0) return;
  for (uint32_t tile = block.Index(); tile < launch.tile_count; tile += block.Count()) {
    const Entry& entry = FindEntry(launch, tile);
    const uint32_t number = tile - entry.first_tile + entry.tile_offset;
    const Partial partial = measure(TileOf<kElementBytes>(launch, entry, number));
    const uint32_t group = number / kGroupTiles;
    const bool last = block.Once([&] {
      if (entry.tiles == 1) {
        Publish(block, launch, entry, partial);
        return false;
      }
      block.Store(launch.tile_partials + tile, partial);
      const uint32_t rest = entry.tiles - group * kGroupTiles;
      return block.DrawsLast(launch.counters + entry.groups_at + group, rest < kGroupTiles ? rest : kGroupTiles);
    });
    if (last) FinishGroup(block, launch, entry, number, launch.tile_partials + (tile - number % kGroupTiles));
  }
}

template <class Format, class Block>
STEPWATCH_DEVICE void MeasureTensors(Block& block, const Launch& launch) {
  ForEachTile<Format::kElementBytes>(block, launch,
                                     [&](const Tile& tile) { return MeasureTile<Format>(block, launch, tile); });
}

template <class TreeFormat, class Format, class Block>
STEPWATCH_DEVICE void MeasureTensorsByTrees(Block& block, const Launch& launch) {
  ForEachTile<Format::kElementBytes>(
      block, launch, [&](const Tile& tile) { return MeasureTileByTrees<TreeFormat, Format>(block, launch, tile); });
}

// Sign agreement: the sum of the products of the signs of entries 0 and 1 goes where zeros are counted.
template <class Block>
STEPWATCH_DEVICE void CompareSigns(Block& block, const Launch& launch) {
  const Entry& other = launch.inline_entries[1];
  ForEachTile<kSignBytes>(block, launch, [&](const Tile& tile) {
    Tile pair = tile;
    pair.data = other.data;
    pair.access = other.access;
    pair.dtype = other.dtype;
    pair.shape = launch.inline_shapes + other.shape;
    typename Block::template PerThread<NonFinite> sums;
    block.For(sums, [&](NonFinite& mine, int thread) {
      mine = {static_cast<uint32_t>(MultiplySigns(tile, pair, thread)), 0};
    });
    Partial partial = NoElements();
    partial.zeros = static_cast<int32_t>(block.AddUp(sums).nans);
    return partial;
  });
}

}  // namespace stepwatch::kernels::cuda
