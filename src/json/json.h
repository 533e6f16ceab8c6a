// JSON output as a value of the JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "stepwatch/status.h"

namespace stepwatch {

// Members keep the order in which they were added.
using Json = nlohmann::ordered_json;

namespace json {

// Serialises to one line; replaces bytes that are not UTF-8.
std::string Dump(const Json& json);
// Null for an empty text, or for nullopt.
Json OrNull(const std::string& text);
Json OrNull(const std::optional<int64_t>& number);
Json OrNull(const std::optional<double>& number);
// A number, or "nan", "inf" or "-inf" if it is not finite. See loose_json.h.
Json Number(double number);
// Null if `number` equals `none`.
Json Unless(int64_t number, int64_t none);
// See bounded::ParseJson.
Result<Json> Parse(std::string_view text_untrusted);

}  // namespace json
}  // namespace stepwatch
