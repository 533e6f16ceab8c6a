// Rows of a CSV file of any size, one at a time, as docs/formats/csv.md describes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// Memory is a block of the file, or the longest row. A growing file is read up to some whole row. Not thread-safe.
class CsvReader {
 public:
  static Result<CsvReader> Open(const std::string& path, base::FileSystem& files = base::FileSystem::Real());

  // Reads the next row's cells, unquoted, valid until the next call. Returns false at the end; text after the last line
  // break is a partial row and is not returned.
  Result<bool> Next(std::vector<std::string_view>* cells);

  const std::string& path() const { return path_; }
  int64_t line() const { return line_; }  // line where the last row began, from 1
  uint64_t bytes_read() const { return bytes_read_; }
  bool ends_inside_row() const { return ends_inside_row_; }  // valid after Next returned false

 private:
  CsvReader(std::string path, base::UniqueFd fd, base::FileSystem& files)
      : files_(&files), path_(std::move(path)), fd_(std::move(fd)) {}
  // The text of the next row without its line break, quotes as they are.
  Result<bool> NextText(std::string_view* text);
  Result<bool> Fill();
  void Split(std::string_view text, std::vector<std::string_view>* cells);

  base::FileSystem* files_;  // a pointer makes readers movable
  std::string path_;
  base::UniqueFd fd_;
  std::string buffer_;
  size_t begin_ = 0;      // of the next row, in buffer_
  std::string unquoted_;  // cells with doubled quotes
  int64_t line_ = 0;
  int64_t lines_before_ = 0;  // of the rows returned so far
  uint64_t bytes_read_ = 0;
  bool at_end_ = false;
  bool ends_inside_row_ = false;
};

}  // namespace stepwatch::offline
