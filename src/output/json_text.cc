#include "src/output/json_text.h"

#include <nlohmann/json.hpp>

#include "src/json/json.h"

namespace stepwatch::output {

void JsonText::Value(std::string_view text) {
  text_ += json::Dump(Json(text));
}

void JsonText::Value(double value) {
  text_ += json::Dump(Json(value));
}

}  // namespace stepwatch::output
