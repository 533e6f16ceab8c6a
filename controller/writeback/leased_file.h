// Waits until nobody can be in the middle of writing a file, and keeps newcomers out while it is dealt with.
//
// A lease (fcntl(2)) is granted only when no one has the file open in a way that conflicts, and whoever opens it
// afterwards waits until the lease ends. Network file systems and files of other users have no leases; there, equal
// bytes must do.
#pragma once

#include <fcntl.h>

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

class LeasedFile {
 public:
  // `lease_type`: F_RDLCK (keeps writers out; for a descriptor open for reading only) or F_WRLCK (keeps everybody out).
  LeasedFile(const FileCalls& calls, base::UniqueFd fd, int lease_type)
      : calls_(calls), fd_(std::move(fd)), lease_type_(lease_type) {}

  int fd() const { return fd_.get(); }
  // Tries for 200 ms. The lease then lives until Release or the end of this object.
  Quiet Await(const std::string& expected);
  // True if somebody waits for the lease to end: they looked the file up before its name changed, and will write to it.
  bool IsWantedByOthers() const { return is_leased_ && !calls_.LeaseHolds(fd_.get(), lease_type_); }
  void Release();
  // The bytes once nobody writes to the file (the lease is held then), or what it holds after 200 ms; none: cannot be
  // read.
  std::optional<std::string> AwaitBytes();

 private:
  const FileCalls& calls_;
  base::UniqueFd fd_;
  const int lease_type_;
  bool is_leased_ = false;
};

}  // namespace stepwatch::writeback
