#include "src/base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/file.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace stepwatch::base {
namespace {

constexpr mode_t kOwnerReads = 0400;

Status Trouble(const char* what, const std::string& name) {
  return ErrnoStatus(what, name, errno);
}

// Beyond RLIMIT_FSIZE the kernel would send a signal that ends the process.
UnforkedFd MakeFile(const std::string& name, size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;
    return {};
  }
  return UnforkedFd::Make([&] { return ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING); });
}

// Reopens the file for reading.
UnforkedFd ReadOnly(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UnforkedFd::Make([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Mapping::Reset() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

Result<SealedMemory> SealedMemory::Make(const std::string& name, size_t bytes) {
  UnforkedFd file = MakeFile(name, bytes);
  if (!file.valid()) return Trouble("cannot create shared memory", name);
  // Allocated now, because memory may have run out by the time of a write.
  int error = 0;
  do {
    error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error != 0) return ErrnoStatus("cannot allocate shared memory", name, error);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED) return Trouble("cannot map shared memory", name);
  SealedMemory memory{Mapping(data, bytes), {}, bytes};
  // Prevents new writable mappings (Linux 5.1). On older kernels the mode prevents others from reopening the file, and
  // the descriptor that they get is read-only.
  const bool is_closed = ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
  const bool is_ours = ::fchmod(file.get(), kOwnerReads) == 0;
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Trouble("cannot seal shared memory", name);
  memory.fd = ReadOnly(file.get());
  if (!memory.fd.valid() && is_closed) memory.fd = std::move(file);
  if (!memory.fd.valid() || (!is_closed && !is_ours)) return Trouble("cannot keep others from writing to", name);
  return memory;
}

Result<SealedMemory> SealedMemory::MakeConstant(const std::string& name, std::string_view text) {
  UnforkedFd file = MakeFile(name, text.size());
  if (!file.valid()) return Trouble("cannot create shared memory", name);
  if (const Status written = WriteAll(file.get(), text); !written.ok()) return written;
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Trouble("cannot seal shared memory", name);
  SealedMemory memory;
  memory.fd = std::move(file);
  memory.bytes = text.size();
  return memory;
}

Result<Mapping> MapSealed(int fd_untrusted, size_t bytes_min, size_t bytes_max) {
  const int seals = ::fcntl(fd_untrusted, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status(StatusCode::kInvalid, "the received descriptor is not memory that is sealed against shrinking");
  struct stat about {};
  if (::fstat(fd_untrusted, &about) != 0) return ErrnoStatus("cannot look at", "shared memory", errno);
  const auto bytes = static_cast<uint64_t>(about.st_size);
  if (bytes < bytes_min || bytes > bytes_max)
    return Status(StatusCode::kInvalid, "the received memory has " + std::to_string(bytes) + " bytes; expected " +
                                            std::to_string(bytes_min) + " to " + std::to_string(bytes_max));
  if (bytes == 0) return Mapping();
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_untrusted, 0);
  if (data == MAP_FAILED) return ErrnoStatus("cannot map", "shared memory", errno);
  return Mapping(data, bytes);
}

}  // namespace stepwatch::base
