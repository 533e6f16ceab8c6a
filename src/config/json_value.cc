#include "src/config/json_value.h"

#include "src/base/text.h"

namespace stepwatch::config {

const JsonValue* JsonValue::Member(std::string_view name) const {
  if (kind != Kind::kObject) return nullptr;
  for (const JsonValue& child : children)
    if (child.key == name) return &child;
  return nullptr;
}

std::string PathOfMember(const std::string& parent, std::string_view key_untrusted) {
  return (parent.empty() ? "" : parent + ".") + base::Printable(key_untrusted);
}

std::string PathOfElement(const std::string& parent, size_t i) {
  return parent + "[" + std::to_string(i) + "]";
}

}  // namespace stepwatch::config
