#include <string>

#include "src/config/config_text.h"
#include "src/config/field.h"
#include "src/config/parse_config.h"

namespace stepwatch::config {

Result<std::string> SpliceDynamicOn(std::string_view text_untrusted, bool on) {
  Result<JsonDocument> document = ReadConfigText(text_untrusted);
  if (!document.ok()) return document.status();
  const Field top{document.value().root, ""};
  const JsonValue* value = top.value.Member("dynamic_on");
  if (value == nullptr)
    return Status(StatusCode::kNotFound,
                  "the key \"dynamic_on\" is missing; add \"dynamic_on\": false on its own line after the first {");
  const Notes notes(document.value());
  if (!value->Is(JsonValue::Kind::kBool))
    return notes.Refuse(StatusCode::kWrongType, MemberOf(top, *value), "true or false");
  std::string text(text_untrusted.substr(0, value->range.begin));
  text += on ? "true" : "false";
  text += text_untrusted.substr(value->range.end);
  // "false" is one byte longer than "true": the result of a text that fills the limit would be rejected when it is
  // read.
  if (text.size() > kConfigBytesMax)
    return Status(StatusCode::kExhausted, "with \"dynamic_on\": false the text would have " +
                                              std::to_string(text.size()) + " bytes; accepted: at most " +
                                              std::to_string(kConfigBytesMax));
  return text;
}

}  // namespace stepwatch::config
