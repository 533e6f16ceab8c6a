#include "controller/cli/read_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kTextBytesMax = 1000;

}  // namespace

const Json& Member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string Text(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_string() ? base::Printable(member.get<std::string>(), kTextBytesMax) : "";
}

std::string RawText(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_string() ? member.get<std::string>() : "";
}

double Number(const Json& object, const char* name, double none) {
  const Json& member = Member(object, name);
  return member.is_number() ? member.get<double>() : none;
}

int64_t Whole(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_number_integer() ? member.get<int64_t>() : -1;
}

uint64_t Count(const Json& object, const char* name) {
  return static_cast<uint64_t>(std::max<int64_t>(0, Whole(object, name)));
}

bool IsTrue(const Json& object, const char* name) {
  const Json& member = Member(object, name);
  return member.is_boolean() && member.get<bool>();
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

std::vector<std::string> Texts(const Json& object, const char* name) {
  std::vector<std::string> texts;
  for (const Json& each : List(object, name))
    if (each.is_string()) texts.push_back(base::Printable(each.get<std::string>()));
  return texts;
}

TextPlace PlaceOf(const Json& finding) {
  return {Text(finding, "key"), static_cast<int>(Count(finding, "line")), static_cast<int>(Count(finding, "column"))};
}

}  // namespace stepwatch::cli
