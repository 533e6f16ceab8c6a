// Whether a text contains a part.
#pragma once

#include <string>

namespace stepwatch::testing {

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace stepwatch::testing
