// Non-finite numbers in JSON, which has no literal for them.
// Stepwatch writes two spellings: "NaN", "Infinity" and "-Infinity" in GET /v1/latest of a job; "nan", "inf" and "-inf"
// in beats and in all routes of stepwatchd. User programs write both, and the literals NaN and Infinity of Python's
// json.dumps. This reader accepts all of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/json/json.h"

namespace stepwatch::json {

// Reads a number, or a string that spells a non-finite one: either spelling, any case, optional sign. Nullopt for any
// other value.
std::optional<double> LooseNumber(const Json& value);
std::optional<double> LooseNumber(const nlohmann::json& value);

// Replaces the literals NaN, Infinity and -Infinity by strings, and lone surrogates and bytes that are not UTF-8 by
// U+FFFD. Leaves the rest unchanged.
std::string MendJson(std::string_view text_untrusted);

}  // namespace stepwatch::json
