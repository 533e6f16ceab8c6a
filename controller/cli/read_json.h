// Members of an answer that another process wrote: what is missing, or of another type, reads as nothing.
#pragma once

#include <cstdint>
#include <string>

#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// Safe to print on one line.
std::string Text(const Json& object, const char* name);
// As it is, to ask another question with it.
std::string RawText(const Json& object, const char* name);
double Number(const Json& object, const char* name, double none = 0);
// -1: there is none.
int64_t Whole(const Json& object, const char* name);
// 0: there is none, or it is below.
uint64_t Count(const Json& object, const char* name);
bool IsTrue(const Json& object, const char* name);
// An empty object: there is none.
const Json& Part(const Json& object, const char* name);
// An empty list: there is none.
const Json& List(const Json& object, const char* name);

// Where in a config text a finding is.
TextPlace PlaceOf(const Json& finding);

}  // namespace stepwatch::cli
