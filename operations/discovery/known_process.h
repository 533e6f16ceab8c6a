// What is to be told of a process that ended while nobody watched it. Pure, but for the look at /proc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/left_end.h"
#include "operations/vocabulary/known_process.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// True: it ended, or its machine was started again since. Nothing: nobody can tell from here, because it is a process
// of another machine or another container.
std::optional<bool> HasEnded(const KnownProcess& known, base::FileSystem& files = base::FileSystem::Real());

// What it has left behind, if it is among `ends`, without what was told before `told_t`; then that it is gone.
std::vector<Line> LastLinesOf(const KnownProcess& known, const std::vector<control_socket::LeftEnd>& ends,
                              double told_t, double now);

}  // namespace stepwatch::operations
