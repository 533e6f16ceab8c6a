// Memory that another process may read while this one writes, and that can neither shrink nor grow.
//
// It lies in a memfd, so a full or truncated file system does not affect it. Its pages are allocated before it is
// handed out, so that a store never ends in SIGBUS. Only the creator can write: others get a read-only descriptor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::base {

// Owns a mapping and unmaps it when destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { Reset(); }

  bool valid() const { return data_ != nullptr; }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void Reset();

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

struct SealedMemory {
  Mapping mapping;  // writable, initially zero; empty for read-only memory
  UnforkedFd fd;    // for other processes: read-only, sealed; closed in forked children
  size_t bytes = 0;

  // `name` is shown in /proc. Fails if the kernel has no memfd (before Linux 3.17), descriptors or memory are
  // exhausted, or writing by others cannot be prevented.
  static Result<SealedMemory> Make(const std::string& name, size_t bytes);
  // Holds `text`, which no process can change, including this one.
  static Result<SealedMemory> MakeConstant(const std::string& name, std::string_view text);
};

// Maps memory received from another process, read-only. Fails unless it is sealed against shrinking, so that reading
// never ends in SIGBUS, and has at least `bytes_min` and at most `bytes_max` bytes.
Result<Mapping> MapSealed(int fd_untrusted, size_t bytes_min, size_t bytes_max);

}  // namespace stepwatch::base
