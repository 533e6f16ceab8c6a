// A file beside the config, ready to take its place: same mode, owner, access lists and labels, bytes on disk.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

struct TemporaryFile {
  int error = 0;  // an errno; no file is left behind then
  std::string path;
  Version version;
};

// Author of the text in a temporary file.
enum class TextOf : uint8_t {
  kUs,      // Stepwatch: the text can be made again if the file is lost
  kPeople,  // people: an edit, possibly the only copy
};

// Writes a file with a unique name in the directory of `target`; `like` is open on the file to resemble. EPERM if its
// owner cannot be kept.
TemporaryFile WriteBeside(base::FileSystem& files, const std::string& target, int like, std::string_view bytes,
                          TextOf whose = TextOf::kUs);

// The same for a target that does not exist: with the default mode of new files of this process.
TemporaryFile WriteNewBeside(base::FileSystem& files, const std::string& target, std::string_view bytes);

// Identifies a text of one config: the first quarter of its SHA-256, in hex.
constexpr size_t kTextIdSize = 16;
std::string TextId(std::string_view bytes);

// Parsed name of a temporary file: `.<name>.stepwatch-<new or edit>-<text>-<machine>-<pid>-<start>-<n>`. All fields are
// empty for the older form `.<name>.stepwatch-<pid>-<n>`.
struct TemporaryName {
  bool is_of_ours = false;
  std::string text;     // the TextId of its complete content
  std::string machine;  // where the pid is valid
  int pid = 0;
  uint64_t started = 0;
};
// Returns none unless this is the name of a temporary file beside `target`.
std::optional<TemporaryName> ParseTemporaryName(const std::string& target, std::string_view name);
// Returns none if that is unknown from here.
std::optional<bool> IsWriterRunning(const TemporaryName& name);

// Parsed name of a displaced file: the text to replace, and ours.
struct DisplacedName {
  std::string base;
  std::string ours;
};

// Moves `path` to a free name `.<name>.stepwatch-displaced-<base>-<ours>` beside `target`; returns an errno. Afterwards
// it may be exchanged with the target.
int NameDisplaced(base::FileSystem& files, const std::string& target, const DisplacedName& texts, std::string* path);
// The same as a second name (hard link) of the target itself.
int LinkDisplaced(base::FileSystem& files, const std::string& target, const DisplacedName& texts, std::string* path);
// Returns none unless this is the name of a file displaced from `target`.
std::optional<DisplacedName> ParseDisplacedName(const std::string& target, std::string_view name);

// Moves `path` to a free name `.<name>.stepwatch-conflict-<local time>` beside `target`, for bytes that must not be
// lost. Returns the new name.
std::string KeepAsConflict(base::FileSystem& files, const std::string& target, const std::string& path);

}  // namespace stepwatch::writeback
