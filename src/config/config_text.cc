#include "src/config/config_text.h"

#include <string>

#include "src/config/field.h"
#include "src/config/parse_config.h"

namespace stepwatch::config {

Result<JsonDocument> ReadConfigText(std::string_view text_untrusted) {
  if (text_untrusted.size() > kConfigBytesMax)
    return Status(StatusCode::kExhausted, "found a text of " + std::to_string(text_untrusted.size()) +
                                              " bytes; accepted: at most " + std::to_string(kConfigBytesMax));
  Result<JsonDocument> document = ReadJson(text_untrusted, kConfigDepthMax);
  if (document.ok() && !document.value().root.Is(JsonValue::Kind::kObject))
    return Notes(document.value())
        .Refuse(StatusCode::kWrongType, {document.value().root, ""}, "an object, such as {\"dynamic_on\": false}");
  return document;
}

}  // namespace stepwatch::config
