// Puts `dynamic_on: false` into the config file after a collection, never losing an edit saved at the same moment.
//
// Only that token changes: comments, order, spaces, line ends and a byte order mark stay. Blocking file I/O, on the
// loop thread; the result says what was done, never throws.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace stepwatch::writeback {

class FileCalls;

enum class WriteBackOutcome : uint8_t {
  kWritten,     // the file says false now
  kEdited,      // somebody saved other bytes meanwhile; theirs are in the file, ours are not
  kImpossible,  // read-only file or file system (a ConfigMap), no such key, ...: the file is unchanged
};

struct WriteBackResult {
  WriteBackOutcome outcome = WriteBackOutcome::kImpossible;
  std::string method;   // "exchange", "rename", "in place"; empty if nothing was tried
  std::string message;  // one sentence for kEdited and kImpossible
  std::string sha256;   // of what the file should hold after kWritten
};

// `base_sha256`: hash of the bytes that started the window; a file that holds anything else is left alone (kEdited).
// `before_write`: called at most once, with the hash of the new bytes before they can be seen, so that a watcher knows
// them as ours. After kImpossible the file holds the base bytes still: a watcher that was told otherwise must be told
// again.
WriteBackResult WriteBackDynamicOff(const std::string& path, const std::string& base_sha256,
                                    const std::function<void(const std::string& sha256)>& before_write);

// The same through given system calls: for tests that make them fail.
WriteBackResult WriteBackDynamicOff(const std::string& path, const std::string& base_sha256,
                                    const std::function<void(const std::string& sha256)>& before_write,
                                    const FileCalls& calls);

}  // namespace stepwatch::writeback
