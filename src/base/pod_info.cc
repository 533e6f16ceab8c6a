#include "src/base/pod_info.h"

#include <algorithm>

namespace stepwatch::base {

std::string PodValue(std::string_view text_untrusted, std::string_view key) {
  constexpr std::string_view kBegin = "=\"";
  while (!text_untrusted.empty()) {
    std::string_view line = text_untrusted.substr(0, text_untrusted.find('\n'));
    text_untrusted.remove_prefix(std::min(text_untrusted.size(), line.size() + 1));
    if (!line.starts_with(key) || !line.substr(key.size()).starts_with(kBegin)) continue;
    line.remove_prefix(key.size() + kBegin.size());
    if (!line.ends_with('"') || line.find('\\') != std::string_view::npos) return "";
    line.remove_suffix(1);
    return std::string(line);
  }
  return "";
}

}  // namespace stepwatch::base
