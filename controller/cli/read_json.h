// Members of an answer that another process wrote. A missing member, or one of another type, reads as no value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// Null: not an object, or it has no such member.
const Json& Member(const Json& object, const char* name);

// Safe to print on one line.
std::string Text(const Json& object, const char* name);
// Byte for byte, for comparison or for use in another request.
std::string RawText(const Json& object, const char* name);
double Number(const Json& object, const char* name, double none = 0);
// -1: no such number.
int64_t Whole(const Json& object, const char* name);
// 0: no such number, or a negative one.
uint64_t Count(const Json& object, const char* name);
bool IsTrue(const Json& object, const char* name);
// An empty object if it is missing.
const Json& Part(const Json& object, const char* name);
// An empty list if it is missing.
const Json& List(const Json& object, const char* name);

// Strings of a list, safe to print; other values are left out.
std::vector<std::string> Texts(const Json& object, const char* name);

// The place of a finding in a config text.
TextPlace PlaceOf(const Json& finding);

}  // namespace stepwatch::cli
