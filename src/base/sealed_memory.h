// Memory that another process may look into while this one writes, and that can neither shrink nor grow.
//
// It lies in a memfd: a file system that is full, or that somebody truncates, does not reach it. Its pages are there
// before it is handed out, so that a store never ends in SIGBUS, and nobody but the maker can write: others get a
// descriptor that is open for reading alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::base {

// A mapping, unmapped at the end.
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
  Mapping mapping;  // writable, zeroed at first; read-only memory has none
  UnforkedFd fd;    // to be handed on: open for reading, sealed; a forked child does not have it
  size_t bytes = 0;

  // `name` is what /proc shows. Not Ok: the kernel has no memfd (before Linux 3.17), no descriptor or no memory is
  // left, or others could not be kept from writing.
  static Result<SealedMemory> Make(const std::string& name, size_t bytes);
  // Holds `text`, which nobody can change, this process included.
  static Result<SealedMemory> MakeConstant(const std::string& name, std::string_view text);
};

// Maps what another process has handed over, for reading. Refused unless it is sealed against shrinking, so that no
// look at it ends in SIGBUS, and has at least `bytes_min` and at most `bytes_max` bytes.
Result<Mapping> MapSealed(int fd_untrusted, size_t bytes_min, size_t bytes_max);

}  // namespace stepwatch::base
