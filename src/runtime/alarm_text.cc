#include "src/runtime/alarm_text.h"

#include <nlohmann/json.hpp>

#include "src/sinks/number_text.h"
#include "stepwatch/tag.h"

namespace stepwatch::runtime {
namespace {

constexpr int kAllDigits = -1;

std::string ValueText(const StatValue& value) {
  std::string text;
  if (value.is_integer) {
    sinks::AppendInteger(value.i64, &text);
  } else {
    sinks::AppendDouble(value.f64, kAllDigits, &text);
  }
  return text;
}

std::string MeanText(double mean) {
  std::string text;
  sinks::AppendDouble(mean, kAllDigits, &text);
  return text;
}

}  // namespace

std::string AlarmSentence(const RecordLayout& layout, const Record& record, const alerts::Alarm& alarm, int rank) {
  return std::string("Rule ") + alerts::RuleName(alarm.rule) + " reports anomaly signal in ('" +
         RecordTag(layout, record, rank) + "', '" + StatName(alarm.value.stat) + "') at step " +
         std::to_string(record.step) + ", current value " + ValueText(alarm.value) + ", history mean " +
         MeanText(alarm.mean) + ".";
}

std::string AnomalyEntry(const RecordLayout& layout, const Record& record, const alerts::Alarm& alarm,
                         const AlarmOrigin& origin) {
  using Json = nlohmann::ordered_json;
  const PlannedSite& site = layout.sites[record.site];
  const std::string tag = RecordTag(layout, record, origin.rank);
  const Json entry = {{"rank", origin.rank},
                      {"step", record.step},
                      {"micro_step", HasMicroStep(layout, site.kind) ? record.micro_step : 0},
                      {"pp_stage", origin.pp_stage},
                      {"vpp_stage", site.chunk},
                      {"call_id", alarm.position},
                      {"tag_name", tag},
                      {"message", AlarmSentence(layout, record, alarm, origin.rank)},
                      {"group_mates", origin.group_mates}};
  const std::string key = tag + "_" + StatName(alarm.value.stat) + "_step_" + std::to_string(record.step) + "_call_" +
                          std::to_string(alarm.position);
  const std::string object = Json{{key, entry}}.dump(1, ' ', true, Json::error_handler_t::replace);
  return object.substr(2, object.size() - 4);  // without "{\n" and "\n}"
}

}  // namespace stepwatch::runtime
