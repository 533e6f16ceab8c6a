// A config text as a tree, within the limits of a config file.
#pragma once

#include <string_view>

#include "src/config/json_value.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

// Like ReadJson, for an object. kExhausted for more than kConfigBytesMax or deeper than kConfigDepthMax, kWrongType for
// any value other than an object.
Result<JsonDocument> ReadConfigText(std::string_view text_untrusted);

}  // namespace stepwatch::config
