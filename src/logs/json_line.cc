#include "src/logs/json_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "src/json/loose_json.h"
#include "src/json/members.h"
#include "src/logs/clean_text.h"
#include "src/logs/prefixes.h"
#include "src/logs/progress.h"

namespace stepwatch::logs {
namespace {

constexpr size_t kMemberBytesMax = 256;

// The first of the members that is a text; empty: there is none.
std::string FirstText(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string text = json::RawText(object, name); !text.empty()) return text;
  return {};
}

std::optional<double> TimeOf(const Json& object, const TimePolicy& policy) {
  for (const char* name : {"@timestamp", "timestamp", "time", "ts", "asctime"}) {
    const Json& member = json::Member(object, name);
    if (member.is_number()) {
      double t = member.get<double>();
      while (t > 1e11) t /= 1000;  // milliseconds, microseconds or nanoseconds
      if (t > 1e8) return t;
    }
    if (!member.is_string()) continue;
    const std::string text = member.get<std::string>();
    std::string_view rest = text;
    if (const auto time = TakeTime(&rest, policy); time && time->t) return time->t;
  }
  return std::nullopt;
}

std::optional<int64_t> WholeOf(const Json& object, const char* name) {
  const Json& member = json::Member(object, name);
  if (!member.is_number_integer()) return std::nullopt;
  const int64_t value = member.get<int64_t>();
  return value >= 0 ? std::optional<int64_t>(value) : std::nullopt;
}

// Scalars that have no member of their own in a record.
void AddMembers(const Json& object, Record* record) {
  for (const auto& [name, value] : object.items()) {
    if (record->attributes.size() >= kAttributesMax) return;
    if (name.size() > 64 || name == "message" || name == "msg" || name == "@timestamp" || name == "timestamp") continue;
    if (value.is_string())
      record->attributes.emplace_back(name, CutUtf8(CleanText(value.get_ref<const std::string&>()), kMemberBytesMax));
    else if (value.is_number() || value.is_boolean())
      record->attributes.emplace_back(name, json::Dump(value));
  }
}

}  // namespace

std::optional<JsonLine> ReadJsonLine(std::string_view line_untrusted, const TimePolicy& policy) {
  const Result<Json> parsed = json::Parse(json::MendJson(line_untrusted));
  if (!parsed.ok() || !parsed.value().is_object()) return std::nullopt;
  const Json& object = parsed.value();
  JsonLine line;
  line.t = TimeOf(object, policy);
  if (json::Member(object, "log").is_string() &&
      (json::Member(object, "stream").is_string() || json::Member(object, "time").is_string())) {
    line.is_envelope = true;
    line.text = json::RawText(object, "log");
    while (line.text.ends_with('\n') || line.text.ends_with('\r')) line.text.pop_back();
    return line;
  }
  Record& record = line.record;
  const std::string text = FirstText(object, {"message", "msg", "event", "event.action", "body"});
  record.progress = FindJsonProgress(object);
  if (text.empty() && !record.progress) return std::nullopt;
  record.t = line.t;
  record.message = CutUtf8(CleanText(text.empty() ? line_untrusted : std::string_view(text)), kMessageBytesMax);
  record.rank = WholeOf(object, "rank");
  record.local_rank = WholeOf(object, "local_rank");
  std::string level = FirstText(object, {"log.level", "level", "levelname", "severity"});
  if (level.empty()) level = json::RawText(json::Part(object, "log"), "level");
  record.level = LevelOf(level);
  record.component =
      CutUtf8(CleanText(FirstText(object, {"component", "log.logger", "logger", "name"})), kMemberBytesMax);
  record.host = CutUtf8(CleanText(FirstText(object, {"host.name", "hostname", "host"})), kMemberBytesMax);
  const std::string type = json::RawText(object, "error.type");
  const std::string stack = FirstText(object, {"error.stack_trace", "exc_info", "exception", "stack_trace"});
  if (!type.empty() || !stack.empty())
    record.exception = Exception{type, json::RawText(object, "error.message"),
                                 std::string(CutUtf8(CleanText(stack), kMessageBytesMax))};
  AddMembers(object, &record);
  return line;
}

}  // namespace stepwatch::logs
