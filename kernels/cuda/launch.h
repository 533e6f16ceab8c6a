// The interface between host and device: the argument of a launch, and its results.
//
// A tensor is cut into tiles of kTileBytes, independent of the grid, so the bits of its sums depend on the data alone.
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
inline constexpr uint32_t kGroupTiles = kThreads;  // one thread per tile when a group is folded

// Access pattern of a thread to the elements of a vector.
enum class Access : uint8_t {
  kVectors,         // contiguous, aligned to 16 bytes
  kNarrow,          // contiguous at any address
  kStridedVectors,  // runs of 16 aligned bytes; Shape counts vectors
  kStrided,         // single elements; Shape counts elements
};

// Maps a row-major index to an address. Rows with a pitch are the case of two dimensions.
struct Shape {
  int64_t ndim;
  int64_t sizes[kDimsMax];
  int64_t strides[kDimsMax];  // in bytes
};

// One tensor, or the part of a very large one that fits into a launch.
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

// Totals of some elements. Extremes are integers in the order of the numbers they stand for (keys.h). A tile, a group
// and a tensor use the same form.
struct Partial {
  double sum;
  double sum_of_squares;
  int64_t low;
  int64_t high;
  int64_t zeros;
  int64_t nans;
  int64_t infs;
};

// A result in pinned memory. `sequence` is written last and publishes the rest.
struct ResultSlot {
  Partial totals;
  uint64_t sequence;
};
static_assert(sizeof(ResultSlot) == 64);  // one cache line, not shared by two results

inline constexpr uint32_t kInlineEntries = 64;
inline constexpr uint32_t kInlineShapes = 7;

// The threshold for |x| in the form that the dtype needs.
struct ZeroRule {
  double number;  // fp64 and integers
  uint32_t key;   // fp32: bits of the smallest float that is not below the threshold; 16 and 8 bits: such a code
};

// The argument of every kernel, passed by value: host memory is not read after the launch call returns, and a captured
// graph holds its own copy.
struct Launch {
  const Entry* entries;  // null: inline_entries
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
  const uint32_t* off;  // null, or zero at the address: measure
  uint32_t depth;
  uint32_t row_results;
  Entry inline_entries[kInlineEntries];
  Shape inline_shapes[kInlineShapes];
};
static_assert(sizeof(Launch) <= 4096);  // limit of kernel arguments since CUDA 4

// One kernel for each way to decode a vector. Tree kernels serve devices with slow fp64.
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
  kAgreement,  // entries 0 and 1 form a pair of tensors
};
inline constexpr int kKernelCount = 17;

}  // namespace stepwatch::kernels::cuda
