// The ceiling: a loop that looks at every byte once and does nothing else worth mentioning.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepwatch::bench {

// The OR of all whole words of `bytes` bytes (a multiple of 512), by the widest loads that this processor has, eight of
// them in flight. `prefetch`: how many bytes ahead the loop asks for memory; 0: it leaves that to the processor.
uint64_t PlainRead(const void* data, size_t bytes, size_t prefetch = 0);

// "512 bit", "256 bit", "128 bit"
const char* PlainReadWidth();

}  // namespace stepwatch::bench
