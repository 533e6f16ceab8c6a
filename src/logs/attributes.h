// The name=value pairs of a line.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepwatch::logs {

// Appends the pairs, at most kAttributesMax in all. Values may be quoted; a name may occur several times.
void FindAttributes(std::string_view message, std::vector<std::pair<std::string, std::string>>* attributes);

}  // namespace stepwatch::logs
