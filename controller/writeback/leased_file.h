// Waits until no program is writing a file, and keeps new writers out meanwhile.
//
// A lease (fcntl(2)) is granted only when no program has the file open in a conflicting way, and a later open waits
// until the lease ends. Network file systems and files of other users have no leases; there, equal bytes must suffice.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

enum class Quiet : uint8_t {
  kQuiet,    // holds the expected bytes, and has no writer
  kChanged,  // holds other bytes
  kHeld,     // holds the expected bytes, but was open for writing all the time
};

constexpr std::chrono::milliseconds kAwaitTime{200};

// Holds a lease for the life of this object, if one is available at construction.
class ScopedLease {
 public:
  ScopedLease(base::FileSystem& files, int fd, int type)
      : files_(files), fd_(fd), type_(type), error_(SetLease(files, fd, type)) {}
  ~ScopedLease() {
    if (error_ == 0) SetLease(files_, fd_, F_UNLCK);
  }
  ScopedLease(const ScopedLease&) = delete;
  ScopedLease& operator=(const ScopedLease&) = delete;

  bool is_granted() const { return error_ == 0; }
  bool is_busy() const { return error_ == EAGAIN || error_ == EBUSY; }  // another process has the file open
  // True if another process waits for the lease to end.
  bool is_wanted() const { return error_ == 0 && files_.GetLease(fd_) != type_; }

 private:
  base::FileSystem& files_;
  const int fd_;
  const int type_;
  const int error_;
};

class LeasedFile {
 public:
  // `lease_type`: F_RDLCK (keeps writers out; for a descriptor open for reading only) or F_WRLCK (keeps all others
  // out). `patience`: how long to wait for others.
  LeasedFile(base::FileSystem& files, base::UniqueFd fd, int lease_type,
             std::chrono::milliseconds patience = kAwaitTime)
      : files_(files), fd_(std::move(fd)), lease_type_(lease_type), patience_(patience) {}
  // A forked child holds the descriptor as well, so closing it alone would leave the lease in place.
  ~LeasedFile() { Release(); }
  LeasedFile(const LeasedFile&) = delete;
  LeasedFile& operator=(const LeasedFile&) = delete;

  int fd() const { return fd_.get(); }
  // The lease then lives until Release or the end of this object.
  Quiet Await(const std::string& expected);
  // True if another process waits for the lease to end: it opened the file before its name changed, and will write to
  // it.
  bool IsWantedByOthers() const { return is_leased_ && files_.GetLease(fd_.get()) != lease_type_; }
  void Release();
  // Returns the bytes once the file has no writer (the lease is then held), or its content when the patience ends;
  // none: unreadable.
  std::optional<std::string> AwaitBytes();
  // Releases the lease.
  base::UniqueFd TakeFd();

 private:
  base::FileSystem& files_;
  base::UniqueFd fd_;
  const int lease_type_;
  const std::chrono::milliseconds patience_;
  bool is_leased_ = false;
};

}  // namespace stepwatch::writeback
