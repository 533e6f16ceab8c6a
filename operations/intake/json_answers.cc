#include "operations/intake/json_answers.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/trace/write_line.h"
#include "src/json/parse_json.h"

namespace stepwatch::operations {
namespace {

AnswerJson NumberJson(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

template <class T>
AnswerJson OrNull(const std::optional<T>& value) {
  return value ? AnswerJson(*value) : AnswerJson();
}

AnswerJson OrNull(const std::string& text) {
  return text.empty() ? AnswerJson() : AnswerJson(text);
}

}  // namespace

std::string StateOf(const RunSnapshot& run) {
  if (run.ended) return "ended";
  return run.paused ? "paused" : std::string(NameOf(run.phase));
}

AnswerJson RunJson(const RunSnapshot& run) {
  AnswerJson json = {{"id", run.id},
                     {"state", StateOf(run)},
                     {"end_reason", run.ended ? AnswerJson(NameOf(run.end_reason)) : AnswerJson()},
                     {"world", OrNull(run.world)},
                     {"hosts", run.hosts},
                     {"step", OrNull(run.step)},
                     {"checkpoint_step", OrNull(run.checkpoint_step)},
                     {"started_t", run.started_t},
                     {"heard_t", run.heard_t},
                     {"restarts", run.restarts},
                     {"step_seconds", run.step_seconds > 0 ? AnswerJson(run.step_seconds) : AnswerJson()},
                     {"latest", AnswerJson::object()}};
  for (const auto& [name, value] : run.latest) json["latest"][name] = NumberJson(value);
  return json;
}

AnswerJson RankJson(const RankSnapshot& rank) {
  return {{"rank", rank.rank},
          {"phase", NameOf(rank.phase)},
          {"step", OrNull(rank.step)},
          {"heard_seconds_ago", rank.heard_seconds_ago},
          {"step_seconds_ago", rank.step_seconds_ago},
          {"module", OrNull(rank.module)},
          {"gone", rank.gone},
          {"process_state", OrNull(rank.process_state == 0 ? "" : std::string(1, rank.process_state))},
          {"waits_in", OrNull(rank.waits_in)},
          {"step_seconds", OrNull(rank.step_seconds)}};
}

AnswerJson PointJson(const SeriesPoint& point) {
  return {{"step_first", point.step_first}, {"step_last", point.step_last}, {"t", point.t},
          {"min", NumberJson(point.min)},   {"max", NumberJson(point.max)}, {"mean", NumberJson(point.mean)},
          {"last", NumberJson(point.last)}, {"count", point.count},         {"nonfinite", point.nonfinite}};
}

AnswerJson IncidentAnswer(const Incident& incident, const std::optional<Acknowledgement>& acknowledgement,
                          const Silence* silence) {
  AnswerJson json = bounded::ParseJson<AnswerJson>(IncidentJson(incident)).value();
  json["opened_t"] = incident.opened_t;
  json["acknowledged"] = nullptr;
  if (acknowledgement)
    json["acknowledged"] = {{"by", acknowledgement->by}, {"note", acknowledgement->note}, {"t", acknowledgement->t}};
  json["silenced_by"] = silence == nullptr ? AnswerJson() : AnswerJson(silence->id);
  return json;
}

AnswerJson SilenceJson(const Silence& silence) {
  return {{"id", silence.id},          {"run", silence.run},   {"kind", silence.kind},
          {"by", silence.by},          {"note", silence.note}, {"created_t", silence.created_t},
          {"until_t", silence.until_t}};
}

std::string Dump(const AnswerJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, AnswerJson::error_handler_t::replace);
}

std::string AnswerText(AnswerJson members) {
  AnswerJson json = {{"version", kAnswerVersion}};
  json.update(members);
  return Dump(json) + "\n";
}

}  // namespace stepwatch::operations
