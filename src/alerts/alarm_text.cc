#include "src/alerts/alarm_text.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/vocabulary/number_text.h"
#include "stepwatch/tag.h"

namespace stepwatch::alerts {
namespace {

constexpr int kAllDigits = -1;

void AppendValue(const StatValue& value, std::string* text) {
  if (value.is_integer) {
    vocabulary::AppendInteger(value.i64, text);
  } else {
    vocabulary::AppendDouble(value.f64, kAllDigits, text);
  }
}

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

// Appends the text in quotes. Invalid UTF-8 is replaced.
void AppendJsonString(std::string_view text, std::string* json) {
  if (!IsPlain(text)) {
    json->append(nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    return;
  }
  json->append("\"").append(text).append("\"");
}

void AppendMember(std::string_view name, int64_t number, std::string* json) {
  json->append("  \"").append(name).append("\": ");
  vocabulary::AppendInteger(number, json);
  json->append(",\n");
}

void AppendMember(std::string_view name, std::string_view text, std::string* json) {
  json->append("  \"").append(name).append("\": ");
  AppendJsonString(text, json);
  json->append(",\n");
}

void AppendGroup(const std::vector<int>& ranks, std::string* json) {
  json->append("  \"group_mates\": [");
  for (size_t i = 0; i < ranks.size(); ++i) {
    json->append(i == 0 ? "\n   " : ",\n   ");
    vocabulary::AppendInteger(ranks[i], json);
  }
  json->append(ranks.empty() ? "]\n" : "\n  ]\n");
}

}  // namespace

AlarmText TextOf(const RecordLayout& layout, const Record& record, const alerts::Alarm& alarm, int rank) {
  AlarmText text{RecordTag(layout, record, rank), {}};
  std::string& sentence = text.sentence;
  sentence.append("Rule ").append(alerts::RuleName(alarm.rule)).append(" reports anomaly signal in ('");
  sentence.append(text.tag).append("', '").append(StatName(alarm.value.stat)).append("') at step ");
  vocabulary::AppendInteger(record.step, &sentence);
  sentence.append(", current value ");
  AppendValue(alarm.value, &sentence);
  sentence.append(", history mean ");
  vocabulary::AppendDouble(alarm.mean, kAllDigits, &sentence);
  sentence.append(".");
  return text;
}

void AppendAnomaly(const RecordLayout& layout, const Record& record, const alerts::Alarm& alarm,
                   const AlarmOrigin& origin, const AlarmText& text, std::string* entry) {
  const PlannedSite& site = layout.sites[record.site];
  const auto call_id = static_cast<int64_t>(alarm.position);
  const std::string key = text.tag + "_" + StatName(alarm.value.stat) + "_step_" + std::to_string(record.step) +
                          "_call_" + std::to_string(call_id);
  entry->append(" ");
  AppendJsonString(key, entry);
  entry->append(": {\n");
  AppendMember("rank", origin.rank, entry);
  AppendMember("step", record.step, entry);
  AppendMember("micro_step", HasMicroStep(layout, site.kind) ? record.micro_step : 0, entry);
  AppendMember("pp_stage", origin.pp_stage, entry);
  AppendMember("vpp_stage", site.chunk, entry);
  AppendMember("call_id", call_id, entry);
  AppendMember("tag_name", text.tag, entry);
  AppendMember("message", text.sentence, entry);
  AppendGroup(origin.group_mates, entry);
  entry->append(" }");
}

}  // namespace stepwatch::alerts
