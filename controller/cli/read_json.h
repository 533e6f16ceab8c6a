// Members of an answer that another process wrote: what is missing, or of another type, reads as nothing.
#pragma once

#include <cstdint>
#include <string>

#include "controller/door/json_values.h"

namespace stepwatch::cli {

// Safe to print on one line.
std::string Text(const door::Json& object, const char* name);
double Number(const door::Json& object, const char* name, double none = 0);
// -1: there is none.
int64_t Whole(const door::Json& object, const char* name);
bool IsTrue(const door::Json& object, const char* name);
// An empty object: there is none.
const door::Json& Part(const door::Json& object, const char* name);
// An empty list: there is none.
const door::Json& List(const door::Json& object, const char* name);

}  // namespace stepwatch::cli
