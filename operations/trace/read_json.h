// Values of a trace's JSON, and what is said when one is of the wrong type.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "stepwatch/status.h"

namespace stepwatch::operations {

using Json = nlohmann::json;

// Null if there is no such member, or it is null.
const Json* Member(const Json& object, const char* name);

// A number, or "nan", "inf" or "-inf", or these as other languages spell them.
Status ReadNumber(const Json& value, const std::string& key, std::optional<double>* number);
// The same; false if the value is none, with nothing said.
bool ReadLooseNumber(const Json& value, std::optional<double>* number);
// A whole number; 40.0 is one.
Status ReadWhole(const Json& value, const std::string& key, std::optional<int64_t>* number);
// Text; a list of texts is one of lines, and what is none is its JSON.
std::string LooseText(const Json& value);
// Text, of which `bytes_max` bytes are kept, and no part of a character.
Status ReadText(const Json& value, const std::string& key, size_t bytes_max, std::string* text);
void CutText(size_t bytes_max, std::string* text);

}  // namespace stepwatch::operations
