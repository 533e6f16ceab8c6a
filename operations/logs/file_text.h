// The text of a file that was found, plain or compressed by gzip: the same offsets in both. It blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/file.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// A file, whatever its name.
struct FileKey {
  uint64_t device = 0;
  uint64_t inode = 0;

  auto operator<=>(const FileKey&) const = default;
};

class FileText {
 public:
  // kInvalid: not a regular file.
  static Result<FileText> Open(const std::string& path, base::FileSystem& files = base::FileSystem::Real());
  FileText(FileText&&) noexcept;
  FileText& operator=(FileText&&) noexcept;
  ~FileText();

  // At most `bytes_max` bytes from `offset` on; fewer, or none, at the present end. Compressed text before the last
  // offset is decompressed from the beginning again. kInvalid: it is not compressed text.
  Result<std::string> Read(int64_t offset, size_t bytes_max);
  // Attributes of the file itself.
  Result<struct stat> Look() const;
  FileKey key() const { return key_; }
  bool is_compressed() const { return stream_ != nullptr; }
  // Compressed text has an end; false if it is still being written.
  bool is_whole() const;

 private:
  struct Stream;

  FileText(base::UniqueFd fd, FileKey key, base::FileSystem& files);
  Result<size_t> ReadSome(int64_t offset, size_t bytes_max, std::string* out) const;
  Status Begin();
  // Appends some decompressed bytes; none: the file has no more at present.
  Status Inflate(size_t bytes_max, std::string* out);

  base::FileSystem* files_;
  base::UniqueFd fd_;
  FileKey key_;
  std::unique_ptr<Stream> stream_;  // null: plain text
};

}  // namespace stepwatch::operations
