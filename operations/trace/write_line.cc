#include "operations/trace/write_line.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/trace/parse_line.h"
#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::operations {
namespace {

void Put(Json* object, const char* key, const std::optional<double>& number) {
  if (number) (*object)[key] = json::Number(*number);
}
void Put(Json* object, const char* key, const std::optional<int64_t>& number) {
  if (number) (*object)[key] = *number;
}
void Put(Json* object, const char* key, const std::string& text) {
  if (!text.empty()) (*object)[key] = text;
}

Json BeatJson(const Beat& beat) {
  Json json = Json::object();
  Put(&json, "step", beat.step);
  if (beat.phase) json["phase"] = NameOf(*beat.phase);
  Put(&json, "loss", beat.loss);
  Put(&json, "grad_norm", beat.grad_norm);
  Put(&json, "lr", beat.lr);
  Put(&json, "tokens", beat.tokens);
  Put(&json, "samples", beat.samples);
  Put(&json, "step_seconds", beat.step_seconds);
  Put(&json, "loss_scale", beat.loss_scale);
  Put(&json, "module", beat.module);
  if (beat.is_of_log) json["by"] = "log";
  for (const auto& [key, number] : beat.reported) json[key] = json::Number(number);
  return json;
}

struct PutEvent {
  Json* json;

  void operator()(const StartEvent& event) const {
    Put(json, "world", event.world);
    Put(json, "host", event.host);
    Put(json, "owner", event.owner);
    Put(json, "partition", event.partition);
  }
  void operator()(const RestartEvent& event) const {
    Put(json, "world", event.world);
    Put(json, "host", event.host);
    Put(json, "owner", event.owner);
    Put(json, "partition", event.partition);
  }
  void operator()(const EndEvent& event) const { (*json)["reason"] = NameOf(event.reason); }
  void operator()(const ExceptionEvent& event) const {
    Put(json, "type", event.type);
    Put(json, "message", event.message);
    Put(json, "stack", event.stack);
  }
  void operator()(const SignalEvent& event) const { (*json)["number"] = event.number; }
  void operator()(const CheckpointEvent& event) const { Put(json, "step", event.step); }
  void operator()(const ProcessGoneEvent&) const {}
  void operator()(const GpuEvent& event) const {
    Put(json, "uuid", event.uuid);
    Put(json, "field", event.field);
    (*json)["value"] = json::Number(event.value);
  }
  void operator()(const PauseEvent& event) const { Put(json, "expires_seconds", event.expires_seconds); }
  void operator()(const ResumeEvent&) const {}
  void operator()(const HostEvent& event) const {
    Put(json, "host", event.host);
    Put(json, "oom_kill", event.oom_kill);
    Put(json, "psi", event.psi);
    Put(json, "cgroup_oom_kill", event.cgroup_oom_kill);
    Put(json, "cgroup_bytes", event.cgroup_bytes);
    Put(json, "cgroup_bytes_max", event.cgroup_bytes_max);
  }
  void operator()(const ClockStepEvent& event) const { (*json)["seconds"] = event.seconds; }
  void operator()(const ProcessStateEvent& event) const { (*json)["state"] = std::string(1, event.state); }
  void operator()(const CollectiveWaitEvent& event) const {
    Put(json, "operation", event.operation);
    (*json)["waits"] = event.waits;
  }
  void operator()(const StacksEvent& event) const {
    Put(json, "text", event.text);
    if (event.is_of_nccl_ras) Put(json, "source", std::string(kNcclRasName));
  }
};

struct ValueJson {
  Json operator()(double number) const { return json::Number(number); }
  Json operator()(const std::vector<double>& numbers) const {
    Json list = Json::array();
    for (const double number : numbers) list.push_back(json::Number(number));
    return list;
  }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

constexpr size_t kValueBytesMax = 120;

struct ValueText {
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return fmt::format("{:.4g}", number); }
  std::string operator()(const std::string& text) const { return base::Printable(text, kValueBytesMax); }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::vector<std::string> texts;
    for (const T& value : values) texts.push_back((*this)(value));
    return base::Printable(base::Joined(texts, " "), kValueBytesMax);
  }
};

}  // namespace

std::string LineJson(const Line& line) {
  Json json;
  json["t"] = line.t;
  if (!line.run.empty()) json["run"] = line.run;
  Put(&json, "rank", line.rank);
  if (const auto* beat = std::get_if<Beat>(&line.what)) {
    json["beat"] = BeatJson(*beat);
  } else {
    Json& event = json["event"];
    event["kind"] = KindOf(line);
    std::visit(PutEvent{&event}, std::get<Event>(line.what));
  }
  return json::Dump(json);
}

std::string IncidentJson(const Incident& incident) {
  Json json;
  json["t"] = std::round(incident.t * 1e6) / 1e6;
  json["incident"] = NameOf(incident.kind);
  json["state"] = NameOf(incident.state);
  json["run"] = incident.run;
  json["ranks"] = incident.ranks;
  json["since_step"] = json::OrNull(incident.since_step);
  json["id"] = incident.id;
  json["severity"] = NameOf(incident.severity);
  Json& evidence = json["evidence"] = Json::object();
  for (const auto& [key, value] : incident.evidence.entries()) evidence[key] = std::visit(ValueJson{}, value);
  return json::Dump(json);
}

std::string IncidentSentence(const Incident& incident) {
  std::string text = fmt::format("{:.1f} {} {} {} in {}", incident.t, NameOf(incident.state), NameOf(incident.severity),
                                 NameOf(incident.kind), base::Printable(incident.run));
  if (!incident.ranks.empty())
    text += (incident.ranks.size() == 1 ? ", rank " : ", ranks ") + ValueText()(incident.ranks);
  if (incident.since_step) text += fmt::format(", since step {}", *incident.since_step);
  for (const auto& [key, value] : incident.evidence.entries())
    text += "; " + base::Printable(key) + " " + std::visit(ValueText(), value);
  return text + " [" + base::Printable(incident.id) + "]";
}

}  // namespace stepwatch::operations
