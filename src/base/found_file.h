// Files that were found, in a directory where others may have put what they like: a pipe that nobody writes to, a
// device without an end, a link that leads elsewhere, a file of a terabyte.
//
// Whoever reads a file that a directory offered opens it here. A path that a person has named is read with
// base::ReadFile, and so is what the kernel makes in /proc.
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

// Opens a regular file, and waits for nobody. With an `owner` it is this user's, and no link in the last place is
// followed; without, it may be anybody's, and links are followed: so do programs that a person runs on a directory.
// kInvalid: it is no such file. `flags` as for open(2).
Result<UniqueFd> OpenFound(const std::string& path, int flags, std::optional<uid_t> owner,
                           FileSystem& files = FileSystem::Real(), mode_t mode = 0644);

// The whole file, if it has at most `bytes_max`; a longer one is kExhausted, and nothing of it is read.
Result<std::string> ReadFound(const std::string& path, size_t bytes_max, std::optional<uid_t> owner,
                              FileSystem& files = FileSystem::Real());

// The lines of an open file, in the memory of one block and one line.
class FoundLines {
 public:
  struct Line {
    std::string_view text;     // without its line feed, valid until the next call
    bool is_too_long = false;  // and then without a text
    bool is_cut_off = false;   // the file ends before the line does
  };

  // Begins at the offset. `fd` and `files` outlive it.
  FoundLines(int fd, off_t from, size_t line_bytes_max, FileSystem& files = FileSystem::Real())
      : files_(files), fd_(fd), offset_(from), line_bytes_max_(line_bytes_max) {}

  // Nothing: the file ends.
  Result<std::optional<Line>> Next();

 private:
  Result<bool> Fill();

  FileSystem& files_;
  const int fd_;
  off_t offset_;
  const size_t line_bytes_max_;
  std::string block_;
  size_t at_ = 0;  // of the next byte in the block
  std::string line_;
};

// The bytes of an open file as a stream, one block in memory. After a failed read the stream ends, and status() says
// why.
class FoundStream : public std::streambuf {
 public:
  // `fd` and `files` outlive it.
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
