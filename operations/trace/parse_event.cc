#include "operations/trace/parse_event.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/trace/parse_line.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

// Reads members of one object; the first error stays.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  void Text(const char* key, size_t bytes_max, std::string* text) {
    if (const Json* value = Next(key)) status_ = ReadText(*value, key, bytes_max, text);
  }
  // What a program says when it fails is told in whatever form it comes.
  void AnyText(const char* key, size_t bytes_max, std::string* text) {
    const Json* value = Next(key);
    if (value == nullptr) return;
    *text = LooseText(*value);
    CutText(bytes_max, text);
  }
  void Whole(const char* key, std::optional<int64_t>* number) {
    if (const Json* value = Next(key)) status_ = ReadWhole(*value, key, number);
  }
  void Number(const char* key, std::optional<double>* number) {
    if (const Json* value = Next(key)) status_ = ReadNumber(*value, key, number);
  }
  void Require(bool holds, const std::string& message) {
    if (status_.ok() && !holds) status_ = Status(StatusCode::kOutOfRange, message);
  }
  Result<Event> Give(Event event) const { return status_.ok() ? Result<Event>(std::move(event)) : status_; }
  const Json& object() const { return object_; }

 private:
  const Json* Next(const char* key) const { return status_.ok() ? Member(object_, key) : nullptr; }

  const Json& object_;
  Status status_;
};

template <class Begin>
Result<Event> ReadBegin(Members members) {
  Begin event;
  members.Whole("world", &event.world);
  members.Text("host", kNameBytesMax, &event.host);
  members.Require(!event.world || (*event.world > 0 && *event.world <= kRankMax + 1),
                  "\"world\" must be a number of ranks");
  return members.Give(event);
}

Result<Event> ReadEnd(Members members) {
  std::string name = "ok";
  members.AnyText("reason", kNameBytesMax, &name);
  // A run that is said to have ended has, whatever the word: by somebody's hand, as long as nobody speaks of an error.
  return members.Give(EndEvent{EndReasonNamed(name).value_or(EndReason::kSignal)});
}

Result<Event> ReadException(Members members) {
  ExceptionEvent event;
  members.AnyText("type", kNameBytesMax, &event.type);
  members.AnyText("message", kMessageBytesMax, &event.message);
  members.AnyText("stack", kStackBytesMax, &event.stack);
  return members.Give(event);
}

Result<Event> ReadSignal(Members members) {
  std::optional<int64_t> number;
  members.Whole("number", &number);
  members.Require(number && *number > 0 && *number < 128, "\"number\" must be a signal number from 1 to 127");
  return members.Give(SignalEvent{number.value_or(0)});
}

Result<Event> ReadCheckpoint(Members members) {
  CheckpointEvent event;
  members.Whole("step", &event.step);
  return members.Give(event);
}

Result<Event> ReadGpu(Members members) {
  GpuEvent event;
  std::optional<double> value;
  members.Text("uuid", kNameBytesMax, &event.uuid);
  members.Text("field", kNameBytesMax, &event.field);
  members.Number("value", &value);
  members.Require(!event.field.empty(), "\"field\", the name of the sampled value such as xid, is missing");
  members.Require(value.has_value(), "\"value\", a number, is missing");
  event.value = value.value_or(0);
  return members.Give(event);
}

Result<Event> ReadPause(Members members) {
  PauseEvent event;
  members.Number("expires_seconds", &event.expires_seconds);
  members.Require(!event.expires_seconds || *event.expires_seconds >= 0, "\"expires_seconds\" must be 0 or more");
  return members.Give(event);
}

Result<Event> ReadHost(Members members) {
  HostEvent event;
  members.Text("host", kNameBytesMax, &event.host);
  members.Number("oom_kill", &event.oom_kill);
  members.Number("psi", &event.psi);
  members.Number("cgroup_oom_kill", &event.cgroup_oom_kill);
  members.Number("cgroup_bytes", &event.cgroup_bytes);
  members.Number("cgroup_bytes_max", &event.cgroup_bytes_max);
  return members.Give(event);
}

Result<Event> ReadClockStep(Members members) {
  std::optional<double> seconds;
  members.Number("seconds", &seconds);
  members.Require(seconds && std::isfinite(*seconds),
                  "\"seconds\" must be the finite number of seconds by which the clock was set");
  return members.Give(ClockStepEvent{seconds.value_or(0)});
}

Result<Event> ReadProcessState(Members members) {
  std::string state;
  members.Text("state", 1, &state);
  members.Require(state.size() == 1, "\"state\" must be one letter, as in /proc/PID/stat");
  return members.Give(ProcessStateEvent{state.empty() ? 'R' : state[0]});
}

Result<Event> ReadCollectiveWait(Members members) {
  CollectiveWaitEvent event;
  members.Text("operation", kNameBytesMax, &event.operation);
  if (const Json* waits = Member(members.object(), "waits")) {
    members.Require(waits->is_boolean(), "\"waits\" must be true or false");
    event.waits = waits->is_boolean() && waits->get<bool>();
  }
  return members.Give(event);
}

Result<Event> ReadStacks(Members members) {
  StacksEvent event;
  members.Text("text", kStackBytesMax, &event.text);
  return members.Give(event);
}

struct Reader {
  std::string_view kind;
  Result<Event> (*read)(Members);
};
constexpr Reader kReaders[] = {
    {"start", ReadBegin<StartEvent>},
    {"restart", ReadBegin<RestartEvent>},
    {"end", ReadEnd},
    {"exception", ReadException},
    {"signal", ReadSignal},
    {"checkpoint", ReadCheckpoint},
    {"process_gone", [](Members members) { return members.Give(ProcessGoneEvent{}); }},
    {"gpu", ReadGpu},
    {"pause", ReadPause},
    {"resume", [](Members members) { return members.Give(ResumeEvent{}); }},
    {"host", ReadHost},
    {"clock_step", ReadClockStep},
    {"process_state", ReadProcessState},
    {"collective_wait", ReadCollectiveWait},
    {"stacks", ReadStacks},
};

}  // namespace

Result<Event> ReadEvent(const Json& object) {
  const Json* kind = Member(object, "kind");
  if (kind == nullptr || !kind->is_string())
    return Status(StatusCode::kNotFound, "\"event\" must have a \"kind\", the name of the event");
  const std::string& name = kind->get_ref<const std::string&>();
  for (const Reader& reader : kReaders)
    if (reader.kind == name) return reader.read(Members(object));
  return Status(StatusCode::kUnsupported, "unknown kind of event \"" + base::Printable(name) + "\"");
}

}  // namespace stepwatch::operations
