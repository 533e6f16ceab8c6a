#include "operations/intake/json_answers.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/trace/write_line.h"

namespace stepwatch::operations {

Json RunJson(const RunSnapshot& run) {
  Json json = {{"id", run.id},
               {"state", StateOf(run)},
               {"end_reason", run.ended ? Json(NameOf(run.end_reason)) : Json()},
               {"world", json::OrNull(run.world)},
               {"hosts", run.hosts},
               {"owner", json::OrNull(run.owner)},
               {"partition", json::OrNull(run.partition)},
               {"step", json::OrNull(run.step)},
               {"checkpoint_step", json::OrNull(run.checkpoint_step)},
               {"started_t", run.started_t},
               {"heard_t", run.heard_t},
               {"restarts", run.restarts},
               {"step_seconds", run.step_seconds > 0 ? Json(run.step_seconds) : Json()},
               {"latest", Json::object()}};
  for (const auto& [name, value] : run.latest) json["latest"][name] = json::Number(value);
  return json;
}

Json RankJson(const RankSnapshot& rank) {
  return {{"rank", rank.rank},
          {"phase", NameOf(rank.phase)},
          {"step", json::OrNull(rank.step)},
          {"heard_seconds_ago", rank.heard_seconds_ago},
          {"step_seconds_ago", rank.step_seconds_ago},
          {"module", json::OrNull(rank.module)},
          {"gone", rank.gone},
          {"process_state", json::OrNull(rank.process_state == 0 ? "" : std::string(1, rank.process_state))},
          {"waits_in", json::OrNull(rank.waits_in)},
          {"step_seconds", json::OrNull(rank.step_seconds)}};
}

Json PointJson(const SeriesPoint& point) {
  return {{"step_first", point.step_first},   {"step_last", point.step_last},   {"t", point.t},
          {"min", json::Number(point.min)},   {"max", json::Number(point.max)}, {"mean", json::Number(point.mean)},
          {"last", json::Number(point.last)}, {"count", point.count},           {"nonfinite", point.nonfinite}};
}

Json IncidentAnswer(const Incident& incident, const std::optional<Acknowledgement>& acknowledgement,
                    const Silence* silence) {
  Json json = json::Parse(IncidentJson(incident)).value();
  json["opened_t"] = incident.opened_t;
  json["acknowledged"] = nullptr;
  if (acknowledgement)
    json["acknowledged"] = {{"by", acknowledgement->by}, {"note", acknowledgement->note}, {"t", acknowledgement->t}};
  json["silenced_by"] = silence == nullptr ? Json() : Json(silence->id);
  return json;
}

Json SilenceJson(const Silence& silence) {
  return {{"id", silence.id},          {"run", silence.run},   {"kind", silence.kind},
          {"by", silence.by},          {"note", silence.note}, {"created_t", silence.created_t},
          {"until_t", silence.until_t}};
}

http::Answer AnswerWith(Json members, int status) {
  Json json = http::VersionedAnswer();
  json.update(members);
  http::Answer answer = http::JsonAnswer(json, status);
  answer.body += '\n';
  return answer;
}

http::Answer Missing(const std::string& what) {
  return AnswerWith({{"error", {{"code", "not_found"}, {"message", what}}}}, 404);
}

}  // namespace stepwatch::operations
