#include "controller/cli/read_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kTextBytesMax = 1000;

// Null: no object, or it has no such member.
const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::string Text(const Json& object, const char* name) {
  const Json* member = Member(object, name);
  return member != nullptr && member->is_string() ? base::Printable(member->get<std::string>(), kTextBytesMax) : "";
}

std::string RawText(const Json& object, const char* name) {
  const Json* member = Member(object, name);
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

double Number(const Json& object, const char* name, double none) {
  const Json* member = Member(object, name);
  return member != nullptr && member->is_number() ? member->get<double>() : none;
}

int64_t Whole(const Json& object, const char* name) {
  const Json* member = Member(object, name);
  return member != nullptr && member->is_number_integer() ? member->get<int64_t>() : -1;
}

uint64_t Count(const Json& object, const char* name) {
  return static_cast<uint64_t>(std::max<int64_t>(0, Whole(object, name)));
}

bool IsTrue(const Json& object, const char* name) {
  const Json* member = Member(object, name);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

const Json& Part(const Json& object, const char* name) {
  static const Json none = Json::object();
  const Json* member = Member(object, name);
  return member != nullptr && member->is_object() ? *member : none;
}

const Json& List(const Json& object, const char* name) {
  static const Json none = Json::array();
  const Json* member = Member(object, name);
  return member != nullptr && member->is_array() ? *member : none;
}

TextPlace PlaceOf(const Json& finding) {
  return {Text(finding, "key"), static_cast<int>(Count(finding, "line")), static_cast<int>(Count(finding, "column"))};
}

}  // namespace stepwatch::cli
