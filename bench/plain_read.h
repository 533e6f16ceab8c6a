// The upper limit: a loop that reads every byte once and does almost nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepwatch::bench {

// Returns the OR of all whole words of `bytes` bytes (a multiple of 512), with the widest loads of this processor,
// eight of them in flight. `prefetch`: distance in bytes of software prefetches; 0: none.
uint64_t PlainRead(const void* data, size_t bytes, size_t prefetch = 0);

// "512 bit", "256 bit", "128 bit"
const char* PlainReadWidth();

}  // namespace stepwatch::bench
