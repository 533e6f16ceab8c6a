// The record that a process leaves beside its control socket when it closes: its last lines and its end. A reader that
// was away learns from it how the process ended; a killed process leaves no record.
// Each runtime directory has one file for all its processes. Its size stays below two times kLeftEndsBytesMax; the
// oldest records are removed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file_system.h"
#include "src/base/process_identity.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

inline constexpr size_t kLeftEndsBytesMax = size_t{1} << 20;

struct LeftEnd {
  base::ProcessIdentity process;    // the process as it identifies itself
  std::vector<std::string> lines;   // last lines, as its control socket served them
  std::optional<uid_t> owner = {};  // owner of the file from which the record was read
};

// Writes into the directory of the process's socket. Users of the group `readers` can read it, too.
Status LeaveEnd(const std::string& directory, const LeftEnd& end, std::optional<gid_t> readers,
                base::FileSystem& files);
// Reads a directory that passes the checks for control sockets, the oldest record first. Empty: no records, or they
// cannot be read.
std::vector<LeftEnd> ReadLeftEnds(const std::string& directory, base::FileSystem& files = base::FileSystem::Real());

// Pure: convert one line of the file, without its newline, to and from text; nullopt if it is not a record.
std::string LeftEndText(const LeftEnd& end);
std::optional<LeftEnd> ParseLeftEnd(std::string_view text_untrusted);

}  // namespace stepwatch::control_socket
