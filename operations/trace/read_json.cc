#include "operations/trace/read_json.h"

#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace stepwatch::operations {
namespace {

constexpr double kWholeMax = 9007199254740992.0;  // 2^53: every whole number up to here is a double

Status WrongType(const std::string& key, const char* takes) {
  return Status(StatusCode::kWrongType, "\"" + key + "\" must be " + takes);
}

}  // namespace

const Json* Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool ReadLooseNumber(const Json& value, std::optional<double>* number) {
  if (value.is_number()) {
    *number = value.get<double>();
    return true;
  }
  if (!value.is_string()) return false;
  std::string text = value.get_ref<const std::string&>();
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const bool is_negative = !text.empty() && text[0] == '-';
  if (is_negative || (!text.empty() && text[0] == '+')) text.erase(0, 1);
  if (text == "nan") {
    *number = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "inf" || text == "infinity") {
    const double infinity = std::numeric_limits<double>::infinity();
    *number = is_negative ? -infinity : infinity;
  } else {
    return false;
  }
  return true;
}

Status ReadNumber(const Json& value, const std::string& key, std::optional<double>* number) {
  return ReadLooseNumber(value, number) ? Status() : WrongType(key, "a number, \"nan\", \"inf\" or \"-inf\"");
}

Status ReadWhole(const Json& value, const std::string& key, std::optional<int64_t>* number) {
  if (!value.is_number()) return WrongType(key, "a whole number");
  const double read = value.get<double>();
  if (read != std::floor(read) || std::abs(read) > kWholeMax) return WrongType(key, "a whole number");
  *number = static_cast<int64_t>(read);
  return Status();
}

std::string LooseText(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (!value.is_array()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  for (const Json& line : value) {
    if (!text.empty() && text.back() != '\n') text += '\n';
    text += line.is_string() ? line.get_ref<const std::string&>()
                             : line.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text;
}

Status ReadText(const Json& value, const std::string& key, size_t bytes_max, std::string* text) {
  if (!value.is_string()) return WrongType(key, "text");
  *text = value.get_ref<const std::string&>();
  CutText(bytes_max, text);
  return Status();
}

void CutText(size_t bytes_max, std::string* text) {
  if (text->size() <= bytes_max) return;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xC0) == 0x80) --end;
  text->resize(end);
}

}  // namespace stepwatch::operations
