// Iterates over the records that one read of an inotify descriptor returned.
#pragma once

#include <sys/inotify.h>

#include <cstddef>
#include <cstring>

namespace stepwatch::watch {

// Calls `take(event)` for every whole record, without the name that may follow it.
template <class Take>
void ForEachInotifyRecord(const char* bytes, size_t size, Take take) {
  while (size >= sizeof(inotify_event)) {
    inotify_event event;
    std::memcpy(&event, bytes, sizeof event);
    if (event.len > size - sizeof event) return;
    take(event);
    bytes += sizeof event + event.len;
    size -= sizeof event + event.len;
  }
}

}  // namespace stepwatch::watch
