#include "operations/log_intake/log_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "src/base/parse_number.h"
#include "src/json/json.h"
#include "src/json/loose_json.h"
#include "src/json/members.h"
#include "src/logs/line_time.h"
#include "src/logs/prefixes.h"

namespace stepwatch::operations {
namespace {

using Names = std::initializer_list<std::string_view>;

constexpr std::string_view kBlanks = " \t\r\n";

// The member of a dotted name: under the name itself, or in objects inside each other. Null: there is none.
const Json* Find(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  if (const auto found = object.find(name); found != object.end()) return &*found;
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto part = object.find(name.substr(0, dot));
  return part == object.end() ? nullptr : Find(*part, name.substr(dot + 1));
}

// The first of the members that is a text.
std::string FirstText(const Json& object, Names names) {
  for (const std::string_view name : names) {
    const Json* const found = Find(object, name);
    if (found != nullptr && found->is_string() && !found->get_ref<const std::string&>().empty())
      return found->get<std::string>();
  }
  return {};
}

// Whole numbers that are not negative, also as text.
std::optional<int64_t> WholeOf(const Json& value) {
  std::optional<int64_t> number;
  if (value.is_number_integer()) number = value.get<int64_t>();
  if (value.is_string()) number = base::ParseNumber<int64_t>(value.get_ref<const std::string&>());
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<int64_t> FirstWhole(const Json& object, Names names) {
  for (const std::string_view name : names)
    if (const Json* const found = Find(object, name))
      if (const auto number = WholeOf(*found)) return number;
  return std::nullopt;
}

// Seconds, or a finer unit, since 1970.
std::optional<double> TimeOfNumber(double number) {
  constexpr double kSecondsMin = 1e8, kSecondsMax = 1e11;
  if (!std::isfinite(number)) return std::nullopt;
  while (number > kSecondsMax) number /= 1000;
  return number >= kSecondsMin ? std::optional(number) : std::nullopt;
}

std::optional<double> TimeOf(const Json& object) {
  for (const char* const name : {"@timestamp", "timestamp", "time", "ts", "date"}) {
    const Json* const found = Find(object, name);
    if (found == nullptr) continue;
    if (found->is_number())
      if (const auto t = TimeOfNumber(found->get<double>())) return t;
    if (!found->is_string()) continue;
    std::string_view text = found->get_ref<const std::string&>();
    if (const auto time = logs::TakeTime(&text, {}); time && time->t) return time->t;
  }
  return std::nullopt;
}

bool IsTruncated(const Json& object) {
  const Json* const flags = Find(object, "log.flags");
  return flags != nullptr && flags->is_array() && std::find(flags->begin(), flags->end(), "truncated") != flags->end();
}

// An object that is read as a whole, since parts of it are not in its text.
bool IsRecord(const Json& object) {
  const Names names = {"error.type", "error.stack_trace", "exc_info", "stack_trace", "progress"};
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return Find(object, name) != nullptr; });
}

// Facts that do not depend on the form of the request.
void Complete(const LogRequestNames& names, std::optional<int64_t> offset, SentLine* line) {
  if (line->run.empty()) line->run = names.run;
  if (!line->rank) line->rank = names.rank;
  if (line->id.empty() && offset && !line->source.empty())
    line->id = SentId(fmt::format("{}\n{}\n{}\n{}\n{:.6f}\n{}", line->run, line->host, line->source, *offset,
                                  line->t.value_or(0), line->text));
}

std::optional<SentLine> LineOf(const Json& object, const LogRequestNames& names) {
  SentLine line;
  line.text = FirstText(object, {"message", "log", "msg", "body"});
  if (line.text.empty() || IsRecord(object)) line.text = json::Dump(object);
  while (line.text.ends_with('\n') || line.text.ends_with('\r')) line.text.pop_back();
  line.source = SentName(FirstText(object, {"log.file.path", "file", "path", "filename", "filepath", "file_path"}));
  line.host = SentName(FirstText(object, {"host.name", "hostname", "host", "agent.hostname"}));
  line.run = SentName(FirstText(object, {"run.id", "run", "run_id", "labels.run", "labels.run_id"}));
  line.rank = FirstWhole(object, {"rank", "labels.rank"});
  line.t = TimeOf(object);
  line.level = logs::LevelOf(FirstText(object, {"log.level", "level", "levelname", "severity"}));
  line.component = SentName(FirstText(object, {"log.logger", "logger", "component"}));
  line.id = SentName(FirstText(object, {"event.id"}));
  line.is_truncated = IsTruncated(object);
  Complete(names, FirstWhole(object, {"log.offset", "log.file.offset", "offset", "log.file.record_offset"}), &line);
  return line;
}

// --- OTLP ---

// A value of OTLP as plain JSON.
Json PlainValue(const Json& value) {
  for (const char* const name : {"stringValue", "boolValue", "doubleValue", "bytesValue"})
    if (const Json& found = json::Member(value, name); !found.is_null()) return found;
  if (const Json& found = json::Member(value, "intValue"); !found.is_null()) {
    const auto number =
        found.is_string() ? base::ParseNumber<int64_t>(found.get_ref<const std::string&>()) : std::nullopt;
    return number ? Json(*number) : found;
  }
  if (const Json& list = json::List(json::Part(value, "arrayValue"), "values"); !list.empty()) {
    Json plain = Json::array();
    for (const Json& each : list) plain.push_back(PlainValue(each));
    return plain;
  }
  Json plain = Json::object();
  for (const Json& each : json::List(json::Part(value, "kvlistValue"), "values"))
    plain[json::RawText(each, "key")] = PlainValue(json::Member(each, "value"));
  return plain.empty() ? Json() : plain;
}

void AddAttributes(const Json& list, Json* attributes) {
  for (const Json& each : list) {
    const std::string key = json::RawText(each, "key");
    if (!key.empty()) (*attributes)[key] = PlainValue(json::Member(each, "value"));
  }
}

// Nanoseconds since 1970; 0: not known.
std::optional<double> NanosecondsOf(const Json& record, const char* name) {
  const auto number = WholeOf(json::Member(record, name));
  return number && *number > 0 ? std::optional(static_cast<double>(*number) / 1e9) : std::nullopt;
}

logs::Level LevelOfOtlp(const Json& record) {
  using logs::Level;
  const int64_t number = json::Whole(record, "severityNumber", 0);
  if (number <= 0 || number > 24) return logs::LevelOf(json::RawText(record, "severityText"));
  constexpr Level kLevels[] = {Level::kTrace,   Level::kDebug, Level::kInfo,
                               Level::kWarning, Level::kError, Level::kFatal};
  return kLevels[(number - 1) / 4];
}

std::optional<SentLine> LineOfOtlp(const Json& record, const Json& of_resource, const LogRequestNames& names) {
  if (!record.is_object()) return std::nullopt;
  Json attributes = of_resource;
  AddAttributes(json::List(record, "attributes"), &attributes);
  const Json body = PlainValue(json::Member(record, "body"));
  const std::string type = FirstText(attributes, {"exception.type"});
  const std::string stack = FirstText(attributes, {"exception.stacktrace"});
  SentLine line;
  if (body.is_string())
    line.text = body.get<std::string>();
  else if (!body.is_null())
    line.text = json::Dump(body);
  if (!type.empty() || !stack.empty()) {
    const std::string message = FirstText(attributes, {"exception.message"});
    line.text = json::Dump({{"message", line.text.empty() ? message : line.text},
                            {"error.type", type},
                            {"error.message", message},
                            {"error.stack_trace", stack}});
  }
  if (line.text.empty()) return std::nullopt;
  line.source = SentName(FirstText(attributes, {"log.file.path", "log.file.name"}));
  line.host = SentName(FirstText(attributes, {"host.name"}));
  line.run = SentName(FirstText(attributes, {"run.id", "run", "run_id"}));
  line.rank = FirstWhole(attributes, {"rank"});
  line.t = NanosecondsOf(record, "timeUnixNano");
  if (!line.t) line.t = NanosecondsOf(record, "observedTimeUnixNano");
  line.level = LevelOfOtlp(record);
  line.component = SentName(FirstText(attributes, {"log.logger"}));
  line.id = SentName(FirstText(attributes, {"log.record.uid"}));
  Complete(names, FirstWhole(attributes, {"log.file.record_offset", "log.offset"}), &line);
  return line;
}

// --- the request ---

class RequestReader {
 public:
  RequestReader(std::string_view body, const LogRequestNames& names) : body_(body), names_(names) {}

  Result<SentLines> Read() {
    const size_t begin = body_.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return std::move(sent_);
    const std::string_view rest = body_.substr(begin);
    if (rest.front() == '[')
      ReadList(rest);
    else if (!ReadOne(rest))
      ReadLines();
    if (sent_.lines.empty() && sent_.refused > 0)
      return Status(StatusCode::kInvalid,
                    fmt::format("no line is accepted; {} {}: {}", sent_.is_otlp ? "record" : "line",
                                sent_.refusals.front().first, sent_.refusals.front().second));
    if (sent_.lines.size() > kLogLinesMax)
      return Status(StatusCode::kExhausted, fmt::format("a request may have at most {} lines", kLogLinesMax));
    AddIds();
    return std::move(sent_);
  }

 private:
  void Refuse(int64_t number, std::string why) {
    if (++sent_.refused <= static_cast<int64_t>(kLogRefusalsMax)) sent_.refusals.emplace_back(number, std::move(why));
  }

  void TakeObject(const Json& object, int64_t number) {
    if (!object.is_object()) return Refuse(number, "it is not a JSON object");
    if (object.empty()) return Refuse(number, "the object is empty; it needs \"message\"");
    if (auto line = LineOf(object, names_)) sent_.lines.push_back(*std::move(line));
  }

  void ReadList(std::string_view text) {
    const Result<Json> list = json::Parse(json::MendJson(text));
    if (!list.ok()) return Refuse(1, "the list " + list.status().message());
    int64_t number = 0;
    for (const Json& each : list.value()) TakeObject(each, ++number);
  }

  // True: the body is one JSON object, on one line or on several.
  bool ReadOne(std::string_view text) {
    const size_t end = text.find('\n');
    const bool is_one_line = end == std::string_view::npos || text.find_first_not_of(kBlanks, end) == text.npos;
    if (!is_one_line && json::Parse(json::MendJson(text.substr(0, end))).ok()) return false;
    const Result<Json> object = json::Parse(json::MendJson(text));
    if (!object.ok() || !object.value().is_object()) return false;
    if (object.value().contains("resourceLogs"))
      ReadOtlp(object.value());
    else
      TakeObject(object.value(), 1);
    return true;
  }

  void ReadLines() {
    int64_t number = 0;
    for (std::string_view rest = body_; !rest.empty() && sent_.lines.size() <= kLogLinesMax;) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view text = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++number;
      if (text.find_first_not_of(kBlanks) == std::string_view::npos) continue;
      const Result<Json> object = json::Parse(json::MendJson(text));
      if (object.ok())
        TakeObject(object.value(), number);
      else
        Refuse(number, "it " + object.status().message());
    }
  }

  void ReadOtlp(const Json& request) {
    sent_.is_otlp = true;
    int64_t number = 0;
    for (const Json& resource : json::List(request, "resourceLogs")) {
      Json attributes = Json::object();
      AddAttributes(json::List(json::Part(resource, "resource"), "attributes"), &attributes);
      for (const Json& scope : json::List(resource, "scopeLogs"))
        for (const Json& record : json::List(scope, "logRecords")) {
          ++number;
          if (auto line = LineOfOtlp(record, attributes, names_))
            sent_.lines.push_back(*std::move(line));
          else
            Refuse(number, "it has no body");
        }
    }
  }

  // A request whose answer was lost is sent again with the same bytes. Lines with times do not repeat otherwise.
  void AddIds() {
    std::string digest;
    for (size_t i = 0; i < sent_.lines.size(); ++i) {
      SentLine& line = sent_.lines[i];
      if (!line.id.empty() || !line.t) continue;
      if (digest.empty()) digest = SentId(body_);
      line.id = fmt::format("{}-{}", digest, i);
    }
  }

  const std::string_view body_;
  const LogRequestNames& names_;
  SentLines sent_;
};

}  // namespace

Result<SentLines> ReadLogRequest(std::string_view body_untrusted, const LogRequestNames& names) {
  return RequestReader(body_untrusted, names).Read();
}

}  // namespace stepwatch::operations
