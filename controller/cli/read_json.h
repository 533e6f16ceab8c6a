// Members of an answer that another process wrote (see src/json/members.h), with text that is safe to print.
#pragma once

#include <string>

#include "src/json/members.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

using json::Count;
using json::IsTrue;
using json::List;
using json::Member;
using json::Number;
using json::Part;
using json::RawText;
using json::Texts;
using json::Whole;

inline std::string Text(const Json& object, const char* name) {
  return json::PrintableText(object, name);
}

// The place of a finding in a config text.
inline TextPlace PlaceOf(const Json& finding) {
  return {Text(finding, "key"), static_cast<int>(Count(finding, "line")), static_cast<int>(Count(finding, "column"))};
}

}  // namespace stepwatch::cli
