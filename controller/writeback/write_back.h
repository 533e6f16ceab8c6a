// Puts `dynamic_on: false` into the config file after a collection, never losing an edit saved at the same moment.
//
// Only that token changes: comments, order, spaces, line ends and a byte order mark stay. Blocking file I/O; the result
// says what was done. The file that was replaced must be looked at for a while afterwards
// (displaced_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/writeback/displaced_file.h"

namespace stepwatch::writeback {

enum class WriteBackOutcome : uint8_t {
  kWritten,     // the file says false now
  kEdited,      // somebody saved other bytes meanwhile; theirs are in the file, ours are not
  kImpossible,  // read-only file or file system (a ConfigMap), no such key, ...: the file is unchanged
};

struct WriteBackResult {
  WriteBackOutcome outcome = WriteBackOutcome::kImpossible;
  std::string method;   // "exchange", "rename", "in place"; empty if nothing was tried
  std::string message;  // one sentence for kEdited and kImpossible
  std::string sha256;   // of our text; empty if there was nothing to write
  std::optional<DisplacedFile> displaced;
};

// `base_sha256`: hash of the bytes that started the window; a file that holds anything else is left alone (kEdited).
// Throws std::bad_alloc alone, in any state of the file; what was displaced by then is found by FindDisplaced.
WriteBackResult WriteBackDynamicOff(const std::string& path, const std::string& base_sha256,
                                    base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::writeback
