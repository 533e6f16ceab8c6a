// What a process leaves beside its control socket when it closes it: its last lines, with its end. Whoever was away
// meanwhile knows from that how it ended; a process that was killed leaves none.
//
// One file in each runtime directory, for all of its processes. It does not grow over two times kLeftEndsBytesMax: the
// oldest go.
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
  base::ProcessIdentity process;    // as it knows itself
  std::vector<std::string> lines;   // as its control socket has served them, the last ones
  std::optional<uid_t> owner = {};  // of the file that it was read from
};

// Of the directory that its socket was in. Users of the group `readers` can read it, too.
Status LeaveEnd(const std::string& directory, const LeftEnd& end, std::optional<gid_t> readers,
                base::FileSystem& files);
// Of a directory that passes the checks for a control socket's, the oldest first. Empty: there are none, or they are
// not to be had.
std::vector<LeftEnd> ReadLeftEnds(const std::string& directory, base::FileSystem& files = base::FileSystem::Real());

// Pure: one line of the file, without its newline, and back; nothing if it is none.
std::string LeftEndText(const LeftEnd& end);
std::optional<LeftEnd> ParseLeftEnd(std::string_view text_untrusted);

}  // namespace stepwatch::control_socket
