// A file with lines of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stepwatch::operations {

struct LogFile {
  std::string path;
  std::optional<int64_t> rank;  // of all its lines, where the path names it

  bool operator==(const LogFile&) const = default;
};

}  // namespace stepwatch::operations
