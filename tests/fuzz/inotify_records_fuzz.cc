// Any bytes as what a read of an inotify descriptor gave: only whole records are taken, and none beyond the end.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/watch/inotify_records.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<char> bytes(data, data + size);  // ends where the input does, for AddressSanitizer
  size_t taken = 0;
  stepwatch::watch::ForEachInotifyRecord(bytes.data(), size, [&](const inotify_event& event) {
    taken += sizeof event + event.len;
    FUZZ_CHECK(taken <= size);
  });
  return 0;
}
