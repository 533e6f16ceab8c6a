// Files found in directories where other users may have put anything: a pipe without a writer, a device without an end,
// a link that leads elsewhere, a file of a terabyte.
//
// A file that was found in a directory is opened here. A path that a user named is read with base::ReadFile, and so are
// files of the kernel in /proc.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::base {

// Opens a regular file without blocking. With an `owner`, the file must belong to this user, and a link in the last
// place is not followed; without, any owner is accepted and links are followed, as programs do that a user runs on a
// directory. kInvalid: not such a file. `flags` as for open(2).
Result<UniqueFd> OpenFound(const std::string& path, int flags, std::optional<uid_t> owner,
                           FileSystem& files = FileSystem::Real(), mode_t mode = 0644);

// Reads the whole file; one longer than `bytes_max` is kExhausted and is not read.
Result<std::string> ReadFound(const std::string& path, size_t bytes_max, std::optional<uid_t> owner,
                              FileSystem& files = FileSystem::Real());

// Reads the lines of an open file in the memory of one block and one line.
class FoundLines {
 public:
  struct Line {
    std::string_view text;     // without its line feed, valid until the next call
    bool is_too_long = false;  // if true, `text` is empty
    bool is_cut_off = false;   // the file ends without a line feed
  };

  // Begins at offset `from`. `fd` and `files` must outlive the object.
  FoundLines(int fd, off_t from, size_t line_bytes_max, FileSystem& files = FileSystem::Real())
      : files_(files), fd_(fd), offset_(from), line_bytes_max_(line_bytes_max) {}

  // nullopt at the end of the file.
  Result<std::optional<Line>> Next();

 private:
  Result<bool> Fill();

  FileSystem& files_;
  const int fd_;
  off_t offset_;
  const size_t line_bytes_max_;
  std::string block_;
  size_t at_ = 0;  // position of the next byte in the block
  std::string line_;
};

// The bytes of an open file as a stream, one block in memory. A failed read ends the stream, and status() holds the
// error.
class FoundStream : public std::streambuf {
 public:
  // `fd` and `files` must outlive the object.
  explicit FoundStream(int fd, FileSystem& files = FileSystem::Real()) : files_(files), fd_(fd) {}

  const Status& status() const { return status_; }

 protected:
  int_type underflow() override;

 private:
  FileSystem& files_;
  const int fd_;
  off_t offset_ = 0;
  std::vector<char> block_;
  Status status_;
};

}  // namespace stepwatch::base
