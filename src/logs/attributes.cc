#include "src/logs/attributes.h"

#include <algorithm>
#include <cstddef>

#include "src/logs/record.h"
#include "src/logs/scan.h"

namespace stepwatch::logs {
namespace {

constexpr size_t kAttributeNameMax = 64;
constexpr size_t kAttributeValueMax = 256;

bool IsKeyByte(char c) {
  return scan::IsWordByte(c) || c == '.' || c == '-' || c == '/';
}

// The value at the start: quoted, or up to a blank, a comma, a semicolon or a closing bracket.
std::string_view ValueAt(std::string_view text) {
  if (!text.empty() && (text.front() == '"' || text.front() == '\'')) {
    const size_t end = text.find(text.front(), 1);
    if (end == std::string_view::npos || end > kAttributeValueMax) return {};
    return text.substr(1, end - 1);
  }
  const size_t end = std::min(text.find_first_of(" \t\n,;)]}"), text.size());
  return end > kAttributeValueMax ? std::string_view() : text.substr(0, end);
}

}  // namespace

void FindAttributes(std::string_view message, std::vector<std::pair<std::string, std::string>>* attributes) {
  // Pairs stand at the start of long texts; the bound keeps the work per line small.
  message = message.substr(0, 8192);
  for (size_t equals = message.find('='); equals != std::string_view::npos; equals = message.find('=', equals + 1)) {
    if (attributes->size() >= kAttributesMax) return;
    size_t begin = equals;
    while (begin > 0 && equals - begin <= kAttributeNameMax && IsKeyByte(message[begin - 1])) --begin;
    const std::string_view name = message.substr(begin, equals - begin);
    if (name.empty() || name.size() > kAttributeNameMax || !scan::IsAlpha(name.front())) continue;
    const std::string_view value = ValueAt(message.substr(equals + 1, kAttributeValueMax + 2));
    if (value.empty() || value.front() == '=') continue;
    attributes->emplace_back(name, value);
  }
}

}  // namespace stepwatch::logs
