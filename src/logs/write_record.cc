#include "src/logs/write_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/base/time_text.h"
#include "src/json/json.h"

namespace stepwatch::logs {
namespace {

constexpr std::string_view kEcsVersion = "8.11.0";
constexpr std::array<std::string_view, 7> kLevelNames = {"", "trace", "debug", "info", "warn", "error", "fatal"};
constexpr std::array<int, 7> kSeverityNumbers = {0, 1, 5, 9, 13, 17, 21};

// ISO 8601 with milliseconds, UTC.
std::string IsoText(double seconds) {
  const double bounded = std::isfinite(seconds) ? std::clamp(seconds, 0.0, 253402300799.0) : 0;
  const auto milliseconds = static_cast<int64_t>(std::floor(bounded * 1000 + 0.5));
  const std::string fraction = std::to_string(1000 + milliseconds % 1000).substr(1);
  return base::UtcText(static_cast<std::time_t>(milliseconds / 1000), "%Y-%m-%dT%H:%M:%S.") + fraction + "Z";
}

// OTLP writes 64-bit integers as strings.
std::string NanosecondsText(double seconds) {
  const double bounded = std::isfinite(seconds) ? std::clamp(seconds, 0.0, 9e9) : 0;
  const auto microseconds = static_cast<int64_t>(std::floor(bounded * 1e6 + 0.5));
  return std::to_string(microseconds * 1000);
}

Json NamesOf(const std::vector<Anomaly>& anomalies) {
  Json names = Json::array();
  for (const Anomaly& anomaly : anomalies) names.push_back(anomaly.name);
  return names;
}

int NumberOf(vocabulary::Severity severity) {
  switch (severity) {
    case vocabulary::Severity::kInfo: return SeverityNumber(Level::kInfo);
    case vocabulary::Severity::kWarning: return SeverityNumber(Level::kWarning);
    case vocabulary::Severity::kCritical: return SeverityNumber(Level::kError);
  }
  return 0;
}

int WorstOf(const std::vector<Anomaly>& anomalies) {
  int worst = 0;
  for (const Anomaly& anomaly : anomalies) worst = std::max(worst, NumberOf(anomaly.severity));
  return worst;
}

// The first one that may be a cause, else the first.
const Anomaly& MainOf(const std::vector<Anomaly>& anomalies) {
  const auto root = std::find_if(anomalies.begin(), anomalies.end(),
                                 [](const Anomaly& anomaly) { return anomaly.role == Role::kRoot; });
  return root == anomalies.end() ? anomalies.front() : *root;
}

void AddAttribute(Json* list, std::string_view key, Json value) {
  list->push_back({{"key", key}, {"value", std::move(value)}});
}

void AddText(Json* list, std::string_view key, std::string_view text) {
  if (!text.empty()) AddAttribute(list, key, {{"stringValue", text}});
}

void AddWhole(Json* list, std::string_view key, const std::optional<int64_t>& number) {
  if (number) AddAttribute(list, key, {{"intValue", std::to_string(*number)}});
}

// The JSON form of protocol buffers spells what JSON cannot.
Json OtlpDouble(double number) {
  if (std::isnan(number)) return {{"doubleValue", "NaN"}};
  if (std::isinf(number)) return {{"doubleValue", number > 0 ? "Infinity" : "-Infinity"}};
  return {{"doubleValue", number}};
}

Json OtelRecord(const Record& record, const RunNames& names) {
  const Level level = EffectiveLevel(record);
  Json json;
  json["timeUnixNano"] = NanosecondsText(TimeOf(record));
  json["observedTimeUnixNano"] = NanosecondsText(record.observed_t);
  json["severityNumber"] = SeverityNumber(level);
  if (record.level != Level::kUnset) json["severityText"] = LevelName(record.level);
  json["body"] = {{"stringValue", record.message}};
  Json attributes = Json::array();
  AddText(&attributes, "run.id", names.run);
  AddText(&attributes, "log.record.uid", record.id);
  AddText(&attributes, "log.file.path", record.source);
  AddText(&attributes, "host.name", record.host);
  AddWhole(&attributes, "rank", record.rank);
  AddWhole(&attributes, "local_rank", record.local_rank);
  AddText(&attributes, "log.logger", record.component);
  if (record.progress) {
    AddWhole(&attributes, "step", record.progress->step);
    if (record.progress->is_evaluation) AddAttribute(&attributes, "evaluation", {{"boolValue", true}});
    for (const auto& [key, value] : record.progress->numbers)
      AddAttribute(&attributes, "progress." + key, OtlpDouble(value));
  }
  if (record.exception) {
    AddText(&attributes, "exception.type", record.exception->type);
    AddText(&attributes, "exception.message", record.exception->message);
    AddText(&attributes, "exception.stacktrace", record.exception->stack);
  }
  if (!record.anomalies.empty()) {
    const Anomaly& main = MainOf(record.anomalies);
    AddText(&attributes, "anomaly.name", main.name);
    AddWhole(&attributes, "anomaly.culprit_rank", main.culprit_rank);
    for (const auto& [key, value] : main.facts) AddText(&attributes, "anomaly." + key, value);
  }
  for (const auto& [key, value] : record.attributes) AddText(&attributes, "attributes." + key, value);
  if (record.is_truncated) AddAttribute(&attributes, "log.truncated", {{"boolValue", true}});
  json["attributes"] = std::move(attributes);
  return json;
}

}  // namespace

std::string_view LevelName(Level level) {
  return kLevelNames.at(static_cast<size_t>(level));
}

int SeverityNumber(Level level) {
  return kSeverityNumbers.at(static_cast<size_t>(level));
}

Level EffectiveLevel(const Record& record) {
  Level level = record.level;
  for (const Anomaly& anomaly : record.anomalies) {
    if (anomaly.severity == vocabulary::Severity::kCritical) level = std::max(level, Level::kError);
    if (anomaly.severity == vocabulary::Severity::kWarning) level = std::max(level, Level::kWarning);
  }
  if (record.exception) level = std::max(level, Level::kError);
  return level;
}

std::string EcsJson(const Record& record, const RunNames& names) {
  Json json;
  json["@timestamp"] = IsoText(TimeOf(record));
  if (record.level != Level::kUnset) json["log.level"] = LevelName(record.level);
  json["message"] = record.message;
  json["ecs.version"] = kEcsVersion;
  const auto add = [&json](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  };
  add("service.name", names.service);
  add("run.id", names.run);
  add("host.name", record.host);
  add("event.id", record.id);
  add("log.file.path", record.source);
  add("log.logger", record.component);
  if (record.t) json["event.created"] = IsoText(record.observed_t);
  if (record.rank) json["rank"] = *record.rank;
  if (record.local_rank) json["local_rank"] = *record.local_rank;
  if (record.progress) {
    if (record.progress->step) json["step"] = *record.progress->step;
    Json numbers = Json::object();
    for (const auto& [key, value] : record.progress->numbers) numbers[key] = json::Number(value);
    if (record.progress->is_evaluation) json["is_evaluation"] = true;
    json["progress"] = std::move(numbers);
  }
  if (record.exception) {
    add("error.type", record.exception->type);
    add("error.message", record.exception->message);
    add("error.stack_trace", record.exception->stack);
  }
  if (!record.anomalies.empty()) {
    json["event.severity"] = WorstOf(record.anomalies);
    json["anomaly.name"] = NamesOf(record.anomalies);
    const Anomaly& main = MainOf(record.anomalies);
    if (main.culprit_rank) json["anomaly.culprit_rank"] = *main.culprit_rank;
    if (!main.facts.empty()) {
      Json facts = Json::object();
      for (const auto& [key, value] : main.facts) facts[key] = value;
      json["anomaly.facts"] = std::move(facts);
    }
  }
  if (!record.attributes.empty()) {
    Json attributes = Json::object();
    for (const auto& [key, value] : record.attributes) {
      if (!attributes.contains(key)) {
        attributes[key] = value;
        continue;
      }
      if (!attributes[key].is_array()) attributes[key] = Json::array({attributes[key]});
      attributes[key].push_back(value);
    }
    json["labels"] = std::move(attributes);
  }
  if (record.is_truncated) json["log.flags"] = Json::array({"truncated"});
  return json::Dump(json);
}

std::string OtelJson(const Record& record, const RunNames& names) {
  return json::Dump(OtelRecord(record, names));
}

std::string OtlpRequest(std::span<const Record> records, const RunNames& names) {
  Json list = Json::array();
  for (const Record& record : records) list.push_back(OtelRecord(record, names));
  Json resource = Json::array();
  AddText(&resource, "service.name", names.service);
  AddText(&resource, "run.id", names.run);
  Json scope = {{"scope", {{"name", "stepwatch"}}}, {"logRecords", std::move(list)}};
  Json whole = {{"resource", {{"attributes", std::move(resource)}}}, {"scopeLogs", Json::array({std::move(scope)})}};
  return json::Dump(Json{{"resourceLogs", Json::array({std::move(whole)})}});
}

}  // namespace stepwatch::logs
