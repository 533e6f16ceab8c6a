// How far the text of each file was read and passed on, as it is kept over restarts.
//
// A text has an identity of its own, which is part of the id of each line: a file may change its name, be copied or
// compressed, and its inode may become that of another file. Its beginning, and the bytes before the position,
// recognise it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operations/logs/file_text.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

inline constexpr size_t kHeadBytes = 1024, kTailBytes = 256;

struct FilePosition {
  std::string identity;         // unique
  std::string path;             // under which it was first found
  int64_t offset = 0;           // all before it was passed on
  bool is_inside = false;       // of a line that was cut
  int64_t head_size = 0;        // at most kHeadBytes
  std::string head;             // digest of the first `head_size` bytes
  std::string tail;             // digest of the bytes before `offset`, kTailBytes of them or `offset`
  std::vector<FileKey> copies;  // files with this text, the one that is read last
  bool is_over = false;         // rotated away, and read to the end
  double seen_t = 0;            // when it was last read or found
};

struct FilePositions {
  double t = 0;        // when they were written; 0: never
  double since_t = 0;  // when following began
  std::vector<FilePosition> files;
};

inline constexpr size_t kPositionsMax = 4096;
inline constexpr size_t kFileCopiesMax = 16;

std::string PositionsText(const FilePositions& positions);
// kInvalid: the text is not that of positions.
Result<FilePositions> ParsePositions(std::string_view text_untrusted);

// Sets the digests of this offset. kNotFound: the text is shorter.
Status SetDigests(FileText* text, FilePosition* position);
// Whether `text` has the same bytes around the position.
bool HasTextOf(FileText* text, const FilePosition& position);

}  // namespace stepwatch::operations
