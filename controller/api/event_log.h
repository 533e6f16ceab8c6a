// The log for events when the program has no event callback.
#pragma once

#include <functional>

#include "stepwatch/event.h"

namespace stepwatch::api {

// Writes events to standard error as log lines with time and level.
std::function<void(const Event&)> MakeEventLog(int rank, int world_size);

}  // namespace stepwatch::api
