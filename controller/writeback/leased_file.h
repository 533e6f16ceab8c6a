// Waits until nobody can be in the middle of writing a file, and keeps newcomers out while it is dealt with.
//
// A lease (fcntl(2)) is granted only when no one has the file open in a way that conflicts, and whoever opens it
// afterwards waits until the lease ends. Network file systems and files of other users have no leases; there, equal
// bytes must do.
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
  kQuiet,    // holds the expected bytes, and nobody writes to it
  kChanged,  // holds other bytes
  kHeld,     // holds the expected bytes, but somebody kept it open for writing all the time
};

constexpr std::chrono::milliseconds kAwaitTime{200};

// A lease for the life of this object, if there is one to be had at this moment.
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
  bool is_busy() const { return error_ == EAGAIN || error_ == EBUSY; }  // somebody has the file open
  // True if somebody waits for the lease to end.
  bool is_wanted() const { return error_ == 0 && files_.GetLease(fd_) != type_; }

 private:
  base::FileSystem& files_;
  const int fd_;
  const int type_;
  const int error_;
};

class LeasedFile {
 public:
  // `lease_type`: F_RDLCK (keeps writers out; for a descriptor open for reading only) or F_WRLCK (keeps everybody out).
  // `patience`: how long to wait for others.
  LeasedFile(base::FileSystem& files, base::UniqueFd fd, int lease_type,
             std::chrono::milliseconds patience = kAwaitTime)
      : files_(files), fd_(std::move(fd)), lease_type_(lease_type), patience_(patience) {}
  // A child that was forked meanwhile holds the descriptor as well, so closing it would leave the lease in place.
  ~LeasedFile() { Release(); }
  LeasedFile(const LeasedFile&) = delete;
  LeasedFile& operator=(const LeasedFile&) = delete;

  int fd() const { return fd_.get(); }
  // The lease then lives until Release or the end of this object.
  Quiet Await(const std::string& expected);
  // True if somebody waits for the lease to end: they looked the file up before its name changed, and will write to it.
  bool IsWantedByOthers() const { return is_leased_ && files_.GetLease(fd_.get()) != lease_type_; }
  void Release();
  // The bytes once nobody writes to the file (the lease is held then), or what it holds when patience ends; none:
  // cannot be read.
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
