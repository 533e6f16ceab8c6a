// The lines of a file or of standard input, one after the other, in bounded memory.
#pragma once

#include <string>

#include "src/base/file.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

class LineSource {
 public:
  // Longer lines come as their first `line_bytes_max` + 1 bytes.
  LineSource(base::UniqueFd fd, size_t line_bytes_max);
  // "-" is standard input.
  static Result<LineSource> Open(const std::string& path, size_t line_bytes_max);

  // The next line, without its newline; false at the end, or if it cannot be read any more, which `status` then says.
  bool Next(std::string* line);
  const Status& status() const { return status_; }

 private:
  bool Fill();

  base::UniqueFd fd_;
  size_t line_bytes_max_;
  std::string buffer_;
  size_t at_ = 0;
  bool ended_ = false;
  Status status_;
};

}  // namespace stepwatch::operations
