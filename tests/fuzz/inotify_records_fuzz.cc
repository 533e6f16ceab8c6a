// Any bytes as what a read of an inotify descriptor gave: only whole records are taken, and none beyond the end.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "controller/watch/inotify_records.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::make_unique<char[]>(size);  // ends where the input does, for AddressSanitizer
  if (size > 0) std::memcpy(bytes.get(), data, size);
  size_t taken = 0;
  stepwatch::watch::ForEachInotifyRecord(bytes.get(), size, [&](const inotify_event& event) {
    taken += sizeof event + event.len;
    FUZZ_CHECK(taken <= size);
  });
  return 0;
}
