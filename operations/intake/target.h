// The target of a request: the parts of its path, and its query by names, with the %xx of URLs decoded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::operations {

struct Target {
  std::vector<std::string> parts;  // of the path: "v1", "runs", …
  std::map<std::string, std::string> query;
};

Target ParseTarget(std::string_view target_untrusted);

}  // namespace stepwatch::operations
