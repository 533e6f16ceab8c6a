#include "operations/trace/write_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace stepwatch::operations {
namespace {

// Members in the order in which they are set.
using OrderedJson = nlohmann::ordered_json;

OrderedJson NumberJson(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace);
}

void Put(OrderedJson* object, const char* key, const std::optional<double>& number) {
  if (number) (*object)[key] = NumberJson(*number);
}
void Put(OrderedJson* object, const char* key, const std::optional<int64_t>& number) {
  if (number) (*object)[key] = *number;
}
void Put(OrderedJson* object, const char* key, const std::string& text) {
  if (!text.empty()) (*object)[key] = text;
}

OrderedJson BeatJson(const Beat& beat) {
  OrderedJson json = OrderedJson::object();
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
  for (const auto& [key, number] : beat.reported) json[key] = NumberJson(number);
  return json;
}

struct PutEvent {
  OrderedJson* json;

  void operator()(const StartEvent& event) const {
    Put(json, "world", event.world);
    Put(json, "host", event.host);
  }
  void operator()(const RestartEvent& event) const {
    Put(json, "world", event.world);
    Put(json, "host", event.host);
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
    (*json)["value"] = NumberJson(event.value);
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
  void operator()(const StacksEvent& event) const { Put(json, "text", event.text); }
};

struct ValueJson {
  OrderedJson operator()(double number) const { return NumberJson(number); }
  OrderedJson operator()(const std::vector<double>& numbers) const {
    OrderedJson list = OrderedJson::array();
    for (const double number : numbers) list.push_back(NumberJson(number));
    return list;
  }
  template <class T>
  OrderedJson operator()(const T& value) const {
    return value;
  }
};

}  // namespace

std::string LineJson(const Line& line) {
  OrderedJson json;
  json["t"] = line.t;
  if (!line.run.empty()) json["run"] = line.run;
  Put(&json, "rank", line.rank);
  if (const auto* beat = std::get_if<Beat>(&line.what)) {
    json["beat"] = BeatJson(*beat);
  } else {
    OrderedJson& event = json["event"];
    event["kind"] = KindOf(line);
    std::visit(PutEvent{&event}, std::get<Event>(line.what));
  }
  return Dump(json);
}

std::string IncidentJson(const Incident& incident) {
  OrderedJson json;
  json["t"] = std::round(incident.t * 1e6) / 1e6;
  json["incident"] = NameOf(incident.kind);
  json["state"] = NameOf(incident.state);
  json["run"] = incident.run;
  json["ranks"] = incident.ranks;
  json["since_step"] = incident.since_step ? OrderedJson(*incident.since_step) : OrderedJson();
  json["id"] = incident.id;
  json["severity"] = NameOf(incident.severity);
  OrderedJson& evidence = json["evidence"] = OrderedJson::object();
  for (const auto& [key, value] : incident.evidence.entries()) evidence[key] = std::visit(ValueJson{}, value);
  return Dump(json);
}

}  // namespace stepwatch::operations
