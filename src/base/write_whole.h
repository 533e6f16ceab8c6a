// Writes all bytes, in one call unless the system writes less: 2 GiB at once, a signal, the last free block.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

#include "src/base/file_system.h"

namespace stepwatch::base {

// Writes at the descriptor's position. Returns 0 or an errno; after an error any part of the bytes may be written.
inline int WriteWhole(FileSystem& files, int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = RepeatInterrupted([&] { return files.Write(fd, bytes.data(), bytes.size()); });
    if (put < 0) return errno;
    if (put == 0) return EIO;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return 0;
}

}  // namespace stepwatch::base
