// The text of stack_info.csv: from where each module was called.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stepwatch::output {

// With its header. Rows are (module, stack), in the order given.
std::string StackInfoText(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace stepwatch::output
