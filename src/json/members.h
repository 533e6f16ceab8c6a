// Members of a JSON object that another process wrote. A missing member, or one of another type, reads as no value; so
// does every member of a value that is not an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::json {

inline constexpr size_t kPrintableBytesMax = 1000;

// Null if it is missing.
const Json& Member(const Json& object, const char* name);
// An empty object if it is missing.
const Json& Part(const Json& object, const char* name);
// An empty list if it is missing.
const Json& List(const Json& object, const char* name);

// Byte for byte, for comparison or for use in another request.
std::string RawText(const Json& object, const char* name);
// Safe to print on one line.
std::string PrintableText(const Json& object, const char* name, size_t bytes_max = kPrintableBytesMax);
// The strings of a list, safe to print; other values are left out.
std::vector<std::string> Texts(const Json& object, const char* name);

double Number(const Json& object, const char* name, double none = 0);
// An integer.
int64_t Whole(const Json& object, const char* name, int64_t none = -1);
// 0: no integer, or a negative one.
uint64_t Count(const Json& object, const char* name);
bool IsTrue(const Json& object, const char* name);

}  // namespace stepwatch::json
