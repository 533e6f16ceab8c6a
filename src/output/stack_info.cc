#include "src/output/stack_info.h"

#include "src/vocabulary/number_text.h"

namespace stepwatch::output {

std::string StackInfoText(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "module_name,stack_info\n";
  for (const auto& [module, stack] : rows) {
    vocabulary::AppendCell(module, &text);
    text.push_back(',');
    vocabulary::AppendCell(stack, &text);
    text.push_back('\n');
  }
  return text;
}

}  // namespace stepwatch::output
