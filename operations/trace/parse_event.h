// The value of "event" in a line.
#pragma once

#include "operations/trace/read_json.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// Errors as those of ParseLine.
Result<Event> ReadEvent(const Json& object);

}  // namespace stepwatch::operations
