// A known process as the text that the store keeps.
#pragma once

#include <string>
#include <string_view>

#include "operations/vocabulary/known_process.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

std::string ProcessText(const KnownProcess& process);
Result<KnownProcess> ParseProcess(std::string_view text);

}  // namespace stepwatch::operations
