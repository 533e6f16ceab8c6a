// Headers of requests that a file lists.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

// Lines "Name: value"; empty lines and those that begin with # have no effect. The error has no value in it.
Result<std::vector<std::pair<std::string, std::string>>> ParseHeaders(std::string_view text_untrusted);

}  // namespace stepwatch::operations::delivery
