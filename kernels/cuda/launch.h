// What host and device say to each other: what a launch measures, and what it answers.
//
// A tensor is cut into tiles of kTileBytes, whatever the grid, so the bits of its sums depend on nothing but the data.
// Within a tile, 16-byte vector v of thread t is vector v * kThreads + t. Element c of a vector goes to lane c % 2 of
// its thread; these two are added first, then the threads of a warp by halves, then the warps by halves. Tiles are
// folded in groups of kGroupTiles, and the groups in kGroupTiles lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stepwatch/tensor_view.h"

namespace stepwatch::kernels::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kTileBytes = 65536;
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorsPerThread = kTileBytes / kVectorBytes / kThreads;
inline constexpr uint32_t kGroupTiles = kThreads;  // one thread for each when a group is folded

// How a thread comes by the elements of a vector.
enum class Access : uint8_t {
  kVectors,         // side by side, the first at a multiple of 16 bytes
  kNarrow,          // side by side at any address
  kStridedVectors,  // 16 aligned bytes each, found by a Shape counted in vectors
  kStrided,         // each element on its own, found by a Shape counted in elements
};

// Where number i of a row-major walk lies. Rows with a pitch are the case of two dimensions.
struct Shape {
  int64_t ndim;
  int64_t sizes[kDimsMax];
  int64_t strides[kDimsMax];  // in bytes
};

// One tensor, or the part of a very large one that a launch has room for.
struct Entry {
  const char* data;
  int64_t count;         // elements of the whole tensor
  uint32_t first_tile;   // number, within the launch, of the entry's first tile
  uint32_t tile_offset;  // tiles of the tensor that earlier launches have measured; a multiple of kGroupTiles
  uint32_t tiles;        // of the whole tensor
  uint32_t result;       // the result goes to ticket base_ticket + result
  uint32_t groups_at;    // first of the tensor's group partials and counters; not used if tiles is 1
  uint16_t shape;        // for strided access
  Access access;
  DType dtype;
};

// What is known of some elements. Extremes are integers in the order of the numbers they stand for (keys.h); counts of
// a tile, a group and a tensor alike.
struct Partial {
  double sum;
  double sum_of_squares;
  int64_t low;
  int64_t high;
  int64_t zeros;
  int64_t nans;
  int64_t infs;
};

// A result in pinned memory. `sequence` is written last: then all the rest is there.
struct ResultSlot {
  Partial totals;
  uint64_t sequence;
};
static_assert(sizeof(ResultSlot) == 64);  // a cache line, which no two results share

inline constexpr uint32_t kInlineEntries = 64;
inline constexpr uint32_t kInlineShapes = 7;

// What |x| is compared with, in the form that suits the dtype.
struct ZeroRule {
  double number;  // fp64 and integers
  uint32_t key;   // fp32: bits of the smallest float that is not below the threshold; 16 and 8 bits: such a code
};

// The argument of every kernel, by value: no memory of the host is read after the launch call has returned, and a
// captured graph holds its own copy.
struct Launch {
  const Entry* entries;  // null: those below
  const Shape* shapes;
  uint32_t first_entry;
  uint32_t entry_count;
  uint32_t tile_count;
  ZeroRule zero;
  Partial* tile_partials;  // one for each tile of the launch
  Partial* group_partials;
  uint32_t* counters;  // zero before and after every launch
  ResultSlot* results;
  uint64_t base_ticket;
  uint64_t result_mask;
  // Captured launches: results of device step s go to row s % depth, of `row_results` each. Null: tickets.
  const uint64_t* step;
  const uint32_t* off;  // null or zero there: measure
  uint32_t depth;
  uint32_t row_results;
  Entry inline_entries[kInlineEntries];
  Shape inline_shapes[kInlineShapes];
};
static_assert(sizeof(Launch) <= 4096);  // of kernel arguments, which every CUDA since 4 takes

// One kernel for each way to read a vector. The trees are for parts where fp64 is slow.
enum class KernelId : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kInteger64,
  kInteger32,
  kInteger16,
  kInteger8,  // int8, uint8 and bool
  kFloat32Tree,
  kFloat16Tree,
  kBFloat16Tree,
  kFloat8E4M3Tree,
  kFloat8E5M2Tree,
  kAgreement,  // entries 0 and 1 are a pair of tensors
};
inline constexpr int kKernelCount = 17;

}  // namespace stepwatch::kernels::cuda
