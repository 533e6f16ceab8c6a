// Parses the bytes of config.json into a Config, or an error that names the key, the place, the value found and the
// accepted values.
//
// Pure. The text is JSON with // and /* */ comments, UTF-8 with or without a byte order mark, at most 1 MiB, nested at
// most 32 deep, without duplicate keys. docs/use/config.md lists the values that are rejected, tolerated and warned
// about.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/config/config.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

inline constexpr size_t kConfigBytesMax = size_t{1} << 20;
inline constexpr int kConfigDepthMax = 32;

// The error is kInvalid when the text is not JSON (a half-written file looks like that), otherwise kWrongType,
// kOutOfRange or kExhausted (size, depth).
Result<ParsedConfig> ParseConfig(std::string_view text_untrusted);

// The same text with `on` for the value of the top-level key "dynamic_on", every other byte kept. Fails if the text is
// not a JSON object, lacks the key, or the value is neither true nor false.
Result<std::string> SpliceDynamicOn(std::string_view text_untrusted, bool on);

}  // namespace stepwatch::config
