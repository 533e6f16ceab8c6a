#include "src/json/parse_json.h"

#include <string>

namespace stepwatch::bounded {
namespace {

Status TooDeep() {
  return Status(StatusCode::kExhausted, "is nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
}

bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kJsonDepthMax) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

template <class Json>
Result<Json> ParseJson(std::string_view text_untrusted) {
  if (text_untrusted.size() > kJsonBytesMax)
    return Status(StatusCode::kExhausted, "has more than " + std::to_string(kJsonBytesMax) + " bytes");
  if (IsTooDeep(text_untrusted)) return TooDeep();
  Json json = Json::parse(text_untrusted, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Status(StatusCode::kInvalid, "is not JSON");
  return json;
}

template <class Json>
Result<Json> ParseJson(std::istream& stream_untrusted, const typename Json::parser_callback_t& keep) {
  // The parser ignores the result of its callback; only an exception ends it.
  struct EndOfParse {};
  const auto bounded = [&keep](int depth, typename Json::parse_event_t event, Json& value) {
    if (depth >= kJsonDepthMax &&
        (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start))
      throw EndOfParse();
    return keep(depth, event, value);
  };
  try {
    Json json = Json::parse(stream_untrusted, bounded, /*allow_exceptions=*/false);
    if (json.is_discarded()) return Status(StatusCode::kInvalid, "is not JSON");
    return json;
  } catch (const EndOfParse&) {
    return TooDeep();
  }
}

template Result<nlohmann::json> ParseJson(std::string_view);
template Result<nlohmann::ordered_json> ParseJson(std::string_view);
template Result<nlohmann::ordered_json> ParseJson(std::istream&, const nlohmann::ordered_json::parser_callback_t&);

}  // namespace stepwatch::bounded
