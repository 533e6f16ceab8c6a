// Changes the config file without losing an edit that is saved at the same moment.
//
// Both functions read the file, derive the new text from its content, and replace the content if it is still what was
// read. Mode, owner, links and attributes of the file stay. Blocking file I/O. The replaced file must be watched for a
// while afterwards (displaced_file.h).
//
// They throw only std::bad_alloc, in any state of the file; FindDisplaced then finds a file that was already displaced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/writeback/displaced_file.h"

namespace stepwatch::writeback {

enum class WriteBackOutcome : uint8_t {
  kWritten,     // the new text is in the file
  kUnchanged,   // the file held the new text already
  kEdited,      // the file does not match the expected hash, or was edited meanwhile; the edit is in the file
  kRefused,     // the new text cannot be made, or would be unreadable: no such key, no JSON, too long
  kImpossible,  // read-only file or file system (a ConfigMap), no room, ...: the file is unchanged
};

struct WriteBackResult {
  WriteBackOutcome outcome = WriteBackOutcome::kImpossible;
  std::string method;        // "exchange", "rename", "in place", "created"; empty if no write was tried
  std::string message;       // one sentence unless kWritten
  std::string found_sha256;  // of the content that was read; empty: there was no file, or it was not read
  std::string sha256;        // of the new text; empty if there is none
  std::optional<DisplacedFile> displaced;
};

// Replaces the whole content by `text`. `if_match_sha256`: only if the content has this hash; empty: always. A file
// that does not exist is created, unless a hash is given.
WriteBackResult ReplaceConfig(const std::string& path, const std::string& if_match_sha256, const std::string& text,
                              base::FileSystem& files = base::FileSystem::Real());

// Sets the value of `dynamic_on`: only that word changes; comments, order, spaces, line ends and a byte order mark
// stay. A text without the key is refused: the key is never inserted.
WriteBackResult SetDynamicOn(const std::string& path, const std::string& if_match_sha256, bool on,
                             base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::writeback
