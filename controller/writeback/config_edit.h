// Changes the config file, never losing an edit that somebody saves at the same moment.
//
// Both functions read the file, make the new text from what it held, and put that in its place if the file still holds
// what was read. Mode, owner, links and attributes of the file stay. Blocking file I/O; the result says what was done.
// The file that was replaced must be looked at for a while afterwards (displaced_file.h).
//
// They throw std::bad_alloc alone, in any state of the file; what was displaced by then is found by FindDisplaced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/writeback/displaced_file.h"

namespace stepwatch::writeback {

enum class WriteBackOutcome : uint8_t {
  kWritten,     // the new text is in the file
  kUnchanged,   // the file held the new text already
  kEdited,      // it holds other bytes than it should, or somebody saved others meanwhile; theirs are in the file
  kRefused,     // the new text cannot be made, or would not be read by anybody: no such key, no JSON, too long
  kImpossible,  // read-only file or file system (a ConfigMap), no room, ...: the file is unchanged
};

struct WriteBackResult {
  WriteBackOutcome outcome = WriteBackOutcome::kImpossible;
  std::string method;        // "exchange", "rename", "in place", "created"; empty if nothing was tried
  std::string message;       // one sentence unless kWritten
  std::string found_sha256;  // of what the file held when it was read; empty: there was no file, or it was not read
  std::string sha256;        // of the new text; empty if there was nothing to write
  std::optional<DisplacedFile> displaced;
};

// Puts `text`, byte for byte, in the place of what the file holds. `if_match_sha256`: only if that is what it holds;
// empty: whatever is there. A file that does not exist is created whole, unless a hash is given.
WriteBackResult ReplaceConfig(const std::string& path, const std::string& if_match_sha256, const std::string& text,
                              base::FileSystem& files = base::FileSystem::Real());

// Makes the value of `dynamic_on` true or false: that word changes, while comments, order, spaces, line ends and a byte
// order mark stay. A text without the key is refused: nothing is inserted.
WriteBackResult SetDynamicOn(const std::string& path, const std::string& if_match_sha256, bool on,
                             base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::writeback
