#include "src/sinks/stack_info.h"

#include "src/sinks/number_text.h"

namespace stepwatch::sinks {

std::string StackInfoText(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "module_name,stack_info\n";
  for (const auto& [module, stack] : rows) {
    AppendCell(module, &text);
    text.push_back(',');
    AppendCell(stack, &text);
    text.push_back('\n');
  }
  return text;
}

}  // namespace stepwatch::sinks
