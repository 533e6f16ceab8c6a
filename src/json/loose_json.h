// Numbers that are not finite in JSON, which has no literal for them.
//
// Two spellings are written: "NaN", "Infinity" and "-Infinity" by GET /v1/latest of a job; "nan", "inf" and "-inf" in
// beats and by all routes of stepwatchd. Programs of users write both, and the literals NaN and Infinity of Python's
// json.dumps. All of them are read here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/json/json.h"

namespace stepwatch::json {

// A number, or a text that stands for one that is not finite, in either spelling, in capitals or not, with a sign or
// none. Empty for any other value.
std::optional<double> LooseNumber(const Json& value);
std::optional<double> LooseNumber(const nlohmann::json& value);

// The literals NaN, Infinity and -Infinity become texts. Halves of surrogate pairs that stand alone and bytes that are
// not UTF-8 become U+FFFD. The rest stays as it is.
std::string MendJson(std::string_view text_untrusted);

}  // namespace stepwatch::json
