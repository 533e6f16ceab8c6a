#include "src/json/members.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/text.h"

namespace stepwatch::json {

const Json& Member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

const Json& Part(const Json& object, const char* name) {
  static const Json none = Json::object();
  const Json& member = Member(object, name);
  return member.is_object() ? member : none;
}

const Json& List(const Json& object, const char* name) {
  static const Json none = Json::array();
  const Json& member = Member(object, name);
  return member.is_array() ? member : none;
}

std::string RawText(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_string() ? member.get<std::string>() : "";
}

std::string PrintableText(const Json& object, const char* name, size_t bytes_max) {
  return base::Printable(RawText(object, name), bytes_max);
}

std::vector<std::string> Texts(const Json& object, const char* name) {
  std::vector<std::string> texts;
  for (const Json& each : List(object, name))
    if (each.is_string()) texts.push_back(base::Printable(each.get<std::string>()));
  return texts;
}

double Number(const Json& object, const char* name, double none) {
  const Json& member = Member(object, name);
  return member.is_number() ? member.get<double>() : none;
}

int64_t Whole(const Json& object, const char* name, int64_t none) {
  const Json& member = Member(object, name);
  return member.is_number_integer() ? member.get<int64_t>() : none;
}

uint64_t Count(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  if (member.is_number_unsigned()) return member.get<uint64_t>();
  return static_cast<uint64_t>(std::max<int64_t>(0, Whole(object, name)));
}

bool IsTrue(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_boolean() && member.get<bool>();
}

}  // namespace stepwatch::json
