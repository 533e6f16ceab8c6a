#include "src/json/json.h"

#include <cmath>

#include "src/json/parse_json.h"

namespace stepwatch::json {

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json OrNull(const std::optional<int64_t>& number) {
  return number ? Json(*number) : Json();
}

Json OrNull(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

Json Number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

Json Unless(int64_t number, int64_t none) {
  return number == none ? Json() : Json(number);
}

Result<Json> Parse(std::string_view text_untrusted) {
  return bounded::ParseJson<Json>(text_untrusted);
}

}  // namespace stepwatch::json
