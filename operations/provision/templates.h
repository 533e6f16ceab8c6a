// The texts below `templates`, embedded by the build.
#pragma once

#include <string_view>
#include <vector>

namespace stepwatch::operations {

struct Template {
  std::string_view path;  // below the provisioned directory
  std::string_view text;
};

const std::vector<Template>& Templates();

}  // namespace stepwatch::operations
