// A file beside the config, ready to take its place: same mode, owner, access lists and labels, bytes on disk.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

struct TemporaryFile {
  int error = 0;  // an errno; nothing is left behind then
  std::string path;
  Version version;
};

// Whose text a temporary file holds.
enum class TextOf : uint8_t {
  kUs,      // it is made anew if the file is lost
  kPeople,  // an edit, which nothing else may hold
};

// A file with a name of its own in the directory of `target`; `like` is open on the file to resemble. EPERM if its
// owner cannot be kept.
TemporaryFile WriteBeside(base::FileSystem& files, const std::string& target, int like, std::string_view bytes,
                          TextOf whose = TextOf::kUs);

// The same for a target that does not exist: with the mode that any new file of this process gets.
TemporaryFile WriteNewBeside(base::FileSystem& files, const std::string& target, std::string_view bytes);

// Tells texts of one config apart: the first quarter of their SHA-256, in hex.
constexpr size_t kTextIdSize = 16;
std::string TextId(std::string_view bytes);

// What the name of a temporary file says: `.<name>.stepwatch-<new or edit>-<text>-<machine>-<pid>-<start>-<n>`. Of a
// release that wrote `.<name>.stepwatch-<pid>-<n>`, nothing is known.
struct TemporaryName {
  bool is_of_ours = false;
  std::string text;     // the TextId of all that it is to hold
  std::string machine;  // where the pid holds
  int pid = 0;
  uint64_t started = 0;
};
// None: no name of a temporary file beside `target`.
std::optional<TemporaryName> ParseTemporaryName(const std::string& target, std::string_view name);
// Nothing: it cannot be known from here.
std::optional<bool> IsWriterRunning(const TemporaryName& name);

// What the name of a displaced file says: the text that was to be replaced, and ours.
struct DisplacedName {
  std::string base;
  std::string ours;
};

// Gives `path` a free name `.<name>.stepwatch-displaced-<base>-<ours>` beside `target`; an errno. From then on it may
// be exchanged with the target.
int NameDisplaced(base::FileSystem& files, const std::string& target, const DisplacedName& texts, std::string* path);
// The same as a second name for the target itself.
int LinkDisplaced(base::FileSystem& files, const std::string& target, const DisplacedName& texts, std::string* path);
// None: no name of a file that was displaced from the place of `target`.
std::optional<DisplacedName> ParseDisplacedName(const std::string& target, std::string_view name);

// Gives `path` a free name `.<name>.stepwatch-conflict-<local time>` beside `target`, for bytes that must not be lost.
// The name it has afterwards.
std::string KeepAsConflict(base::FileSystem& files, const std::string& target, const std::string& path);

}  // namespace stepwatch::writeback
