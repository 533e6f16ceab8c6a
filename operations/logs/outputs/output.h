// One output of records. No method blocks or throws; a fault of the receiver costs that output its records, counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepwatch::operations::outputs {

struct OutputCounts {
  int64_t taken = 0;       // records
  int64_t accepted = 0;    // by the receiver, or in the file
  int64_t duplicates = 0;  // that the receiver had already
  int64_t rejected = 0;    // that the receiver will never accept
  int64_t failures = 0;    // requests, or writes, to be repeated
  int64_t waiting_bytes = 0;
  int64_t dropped_bytes = 0;  // of full queues
};

// Records that wait in memory for the disk; beyond this the oldest are dropped.
inline constexpr size_t kPendingBytesMax = size_t{8} << 20;

class Output {
 public:
  virtual ~Output() = default;
  // A record on one line; `id` may be empty.
  virtual void Add(std::string_view id, std::string_view json) = 0;
  // About once a second; `running`: seconds of a clock that is never set.
  virtual void Tick(double running) = 0;
  virtual OutputCounts counts() const = 0;
  // Records added, less those that a kill of this process would lose.
  virtual int64_t safe() const = 0;
};

// Removes the oldest lines of a text that is too long, and more than necessary, so that this is not done for every
// line. Returns the number of lines; adds their bytes to `dropped_bytes`.
inline int64_t DropOldest(std::string* lines, int64_t* dropped_bytes) {
  if (lines->size() <= kPendingBytesMax) return 0;
  const size_t end = lines->find('\n', lines->size() - kPendingBytesMax / 8 * 7);
  const size_t cut = end == std::string::npos ? lines->size() : end + 1;
  const auto count = std::count(lines->begin(), lines->begin() + static_cast<std::ptrdiff_t>(cut), '\n');
  lines->erase(0, cut);
  *dropped_bytes += static_cast<int64_t>(cut);
  return count;
}

}  // namespace stepwatch::operations::outputs
