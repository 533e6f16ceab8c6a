#include "src/output/json_text.h"

#include <nlohmann/json.hpp>

namespace stepwatch::output {

void JsonText::Value(std::string_view text) {
  text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void JsonText::Value(double value) {
  text_ += nlohmann::json(value).dump();
}

}  // namespace stepwatch::output
