// Upper limits of a device, for comparison in gpu_bench.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepwatch::bench {

using Stream = void*;

// Reads `bytes`, a multiple of 64 KB, like the engine: the same tiles, grid, blocks and loads, folded by XOR. False: a
// device error.
bool ReadOnly(const void* data, size_t bytes, uint32_t grid, uint32_t* sink, Stream stream);

// Keeps the stream busy for about `cycles` of the device's clock.
bool Spin(int64_t cycles, Stream stream);

}  // namespace stepwatch::bench
