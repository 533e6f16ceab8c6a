// The whole lines in a piece of a file. Pure.
//
// A line ends with a line feed, with both of carriage return and line feed, or, as those of a progress bar do, with a
// carriage return alone. NUL bytes before a line are skipped: a file that was truncated under a writer without O_APPEND
// begins with as many as it had bytes. Text between carriage returns that is empty is no line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace stepwatch::operations {

inline constexpr size_t kLogLineBytesMax = size_t{1} << 20;

struct SplitLine {
  std::string_view text;
  size_t begin = 0;  // in the bytes
  size_t end = 0;    // behind its separator, or behind the text of one that is cut
  bool is_truncated = false;
};

struct SplitLines {
  std::vector<SplitLine> lines;
  size_t consumed = 0;     // the rest belongs to a line that has not ended
  bool is_inside = false;  // the consumed bytes end inside a line that was cut
};

struct SplitOptions {
  size_t line_bytes_max = kLogLineBytesMax;  // longer ones are cut: their rest is skipped
  size_t lines_max = 4096;
  bool is_inside = false;  // the bytes begin inside a line that was cut
  bool is_all = false;     // no bytes follow: a line without an end is whole
};

SplitLines SplitIntoLines(std::string_view bytes, const SplitOptions& options);

}  // namespace stepwatch::operations
