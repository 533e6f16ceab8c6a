// A file beside the config, ready to take its place: same mode, owner, access lists and labels, bytes on disk.
#pragma once

#include <string>
#include <string_view>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

struct TemporaryFile {
  int error = 0;  // an errno; nothing is left behind then
  std::string path;
  Version version;
};

// `.<name>.stepwatch-<pid>-<n>` in the directory of `target`; `like` is open on the file to resemble. EPERM if its
// owner cannot be kept.
TemporaryFile WriteBeside(const FileCalls& calls, const std::string& target, int like, std::string_view bytes);

// Gives `path` a free name `.<name>.stepwatch-conflict-<local time>` beside `target`, for bytes that must not be lost.
// The name it has afterwards.
std::string KeepAsConflict(const FileCalls& calls, const std::string& target, const std::string& path);

}  // namespace stepwatch::writeback
