#include "operations/trace/parse_line.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/base/text.h"
#include "src/json/loose_json.h"
#include "src/json/parse_json.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {
namespace {

// Members are sorted by name, which is also the order of a beat's reported numbers.
using SortedJson = nlohmann::json;

// --- values ---

constexpr double kWholeMax = 9007199254740992.0;  // 2^53: every integer up to here is a double

Status WrongType(const std::string& key, const char* takes) {
  return Status(StatusCode::kWrongType, "\"" + key + "\" must be " + takes);
}

// Null if the member is missing or null.
const SortedJson* Member(const SortedJson& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status ReadNumber(const SortedJson& value, const std::string& key, std::optional<double>* number) {
  *number = json::LooseNumber(value);
  return *number ? Status() : WrongType(key, "a number, \"nan\", \"inf\" or \"-inf\"");
}

// An integer; 40.0 is one.
Status ReadWhole(const SortedJson& value, const std::string& key, std::optional<int64_t>* number) {
  if (!value.is_number()) return WrongType(key, "a whole number");
  const double read = value.get<double>();
  if (read != std::floor(read) || std::abs(read) > kWholeMax) return WrongType(key, "a whole number");
  *number = static_cast<int64_t>(read);
  return Status();
}

// A text unchanged, a list of texts as lines, other values as JSON.
std::string LooseText(const SortedJson& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (!value.is_array()) return value.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
  std::string text;
  for (const SortedJson& line : value) {
    if (!text.empty() && text.back() != '\n') text += '\n';
    text += line.is_string() ? line.get_ref<const std::string&>()
                             : line.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
  }
  return text;
}

// Keeps `bytes_max` bytes, and no partial character.
void CutText(size_t bytes_max, std::string* text) {
  if (text->size() <= bytes_max) return;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>((*text)[end]) & 0xC0) == 0x80) --end;
  text->resize(end);
}

Status ReadText(const SortedJson& value, const std::string& key, size_t bytes_max, std::string* text) {
  if (!value.is_string()) return WrongType(key, "text");
  *text = value.get_ref<const std::string&>();
  CutText(bytes_max, text);
  return Status();
}

// --- events ---

// Reads members of one object; the first error stays.
class Members {
 public:
  explicit Members(const SortedJson& object) : object_(object) {}

  void Text(const char* key, size_t bytes_max, std::string* text) {
    if (const SortedJson* value = Next(key)) status_ = ReadText(*value, key, bytes_max, text);
  }
  // The texts of a failure are accepted in any form.
  void AnyText(const char* key, size_t bytes_max, std::string* text) {
    const SortedJson* value = Next(key);
    if (value == nullptr) return;
    *text = LooseText(*value);
    CutText(bytes_max, text);
  }
  void Whole(const char* key, std::optional<int64_t>* number) {
    if (const SortedJson* value = Next(key)) status_ = ReadWhole(*value, key, number);
  }
  void Number(const char* key, std::optional<double>* number) {
    if (const SortedJson* value = Next(key)) status_ = ReadNumber(*value, key, number);
  }
  void Require(bool holds, const std::string& message) {
    if (status_.ok() && !holds) status_ = Status(StatusCode::kOutOfRange, message);
  }
  Result<Event> Give(Event event) const { return status_.ok() ? Result<Event>(std::move(event)) : status_; }
  const SortedJson& object() const { return object_; }

 private:
  const SortedJson* Next(const char* key) const { return status_.ok() ? Member(object_, key) : nullptr; }

  const SortedJson& object_;
  Status status_;
};

template <class Begin>
Result<Event> ReadBegin(Members members) {
  Begin event;
  members.Whole("world", &event.world);
  members.Text("host", kNameBytesMax, &event.host);
  members.Text("owner", kNameBytesMax, &event.owner);
  members.Text("partition", kNameBytesMax, &event.partition);
  members.Require(!event.world || (*event.world > 0 && *event.world <= kRankMax + 1),
                  "\"world\" must be a number of ranks");
  return members.Give(event);
}

Result<Event> ReadEnd(Members members) {
  std::string name = "ok";
  members.AnyText("reason", kNameBytesMax, &name);
  // A run with a reported end has ended, whatever the text: by a signal, unless an error is named.
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
  if (const SortedJson* waits = Member(members.object(), "waits")) {
    members.Require(waits->is_boolean(), "\"waits\" must be true or false");
    event.waits = waits->is_boolean() && waits->get<bool>();
  }
  return members.Give(event);
}

Result<Event> ReadStacks(Members members) {
  StacksEvent event;
  std::string source;
  members.Text("text", kStackBytesMax, &event.text);
  members.Text("source", kNameBytesMax, &source);
  event.is_of_nccl_ras = source == kNcclRasName;
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

Result<Event> ReadEvent(const SortedJson& object) {
  const SortedJson* kind = Member(object, "kind");
  if (kind == nullptr || !kind->is_string())
    return Status(StatusCode::kNotFound, "\"event\" must have a \"kind\", the name of the event");
  const std::string& name = kind->get_ref<const std::string&>();
  for (const Reader& reader : kReaders)
    if (reader.kind == name) return reader.read(Members(object));
  return Status(StatusCode::kUnsupported, "unknown kind of event \"" + base::Printable(name) + "\"");
}

// --- lines ---

constexpr double kTimeMax = 1e12;  // some 30,000 years

Status ReadReported(const std::string& key, const SortedJson& value, Beat* beat) {
  const std::optional<double> number = json::LooseNumber(value);
  if (!number || key.size() > kNameBytesMax) return Status();
  if (beat->reported.size() == kReportedMax)
    return Status(StatusCode::kExhausted,
                  "a beat reports more than " + std::to_string(kReportedMax) + " numbers; send fewer at a time");
  beat->reported.emplace_back(key, *number);
  return Status();
}

Status ReadBeat(const SortedJson& object, Beat* beat) {
  for (const auto& [key, value] : object.items()) {
    Status status;
    if (value.is_null()) continue;
    if (std::optional<double>* number = NumberNamed(key, beat)) {
      if (const std::optional<double> read = json::LooseNumber(value)) *number = read;
    } else if (key == "step") {
      status = ReadWhole(value, key, &beat->step);
    } else if (key == "phase") {
      if (value.is_string()) beat->phase = PhaseNamed(value.get_ref<const std::string&>());
    } else if (key == "module") {
      (void)ReadText(value, key, kNameBytesMax, &beat->module);
    } else if (key == "by") {
      beat->is_of_log = value == "log";
    } else {
      status = ReadReported(key, value, beat);
    }
    if (!status.ok()) return status;
  }
  if (beat->step && *beat->step < -1)
    return Status(StatusCode::kOutOfRange, "\"step\" must be the last finished step, or -1 before the first");
  return Status();
}

Status ReadRank(const SortedJson& object, Line* line) {
  if (const SortedJson* rank = Member(object, "rank"))
    if (Status status = ReadWhole(*rank, "rank", &line->rank); !status.ok()) return status;
  if (line->rank && (*line->rank < 0 || *line->rank > kRankMax))
    return Status(StatusCode::kOutOfRange, "\"rank\" must be 0 to " + std::to_string(kRankMax));
  return Status();
}

// A clock belongs to the observer, and a host or a GPU may belong to many runs.
bool NeedsRun(const Line& line) {
  const auto* event = std::get_if<Event>(&line.what);
  return event == nullptr || (!std::holds_alternative<ClockStepEvent>(*event) &&
                              !std::holds_alternative<HostEvent>(*event) && !std::holds_alternative<GpuEvent>(*event));
}

Status ReadRun(const SortedJson& object, Line* line) {
  const SortedJson* run = Member(object, "run");
  if (run == nullptr)
    return NeedsRun(*line) ? Status(StatusCode::kNotFound, "\"run\", the name of the run, is missing") : Status();
  if (!run->is_string()) return Status(StatusCode::kWrongType, "\"run\" must be text");
  line->run = run->get_ref<const std::string&>();
  if (line->run.empty() || line->run.size() > kRunBytesMax)
    return Status(StatusCode::kOutOfRange, "\"run\" must have 1 to " + std::to_string(kRunBytesMax) + " bytes");
  return Status();
}

Status ReadHead(const SortedJson& object, Line* line) {
  std::optional<double> t;
  const SortedJson* time = Member(object, "t");
  if (time == nullptr)
    return Status(StatusCode::kNotFound, "\"t\", the time of the observer's clock in seconds, is missing");
  if (Status status = ReadNumber(*time, "t", &t); !status.ok()) return status;
  if (!std::isfinite(*t) || std::abs(*t) > kTimeMax)
    return Status(StatusCode::kOutOfRange, "\"t\" must be a time in seconds, from -1e12 to 1e12");
  line->t = *t;
  return ReadRank(object, line);
}

Status ReadWhat(const SortedJson& object, Line* line) {
  const SortedJson* beat = Member(object, "beat");
  const SortedJson* event = Member(object, "event");
  if ((beat == nullptr) == (event == nullptr))
    return Status(StatusCode::kInvalid, "a line must have either \"beat\" or \"event\"");
  const SortedJson& what = beat != nullptr ? *beat : *event;
  if (!what.is_object())
    return Status(StatusCode::kWrongType,
                  std::string(beat != nullptr ? "\"beat\"" : "\"event\"") + " must be an object");
  if (event != nullptr) {
    // The rank of an event may be inside it.
    if (!line->rank)
      if (Status status = ReadRank(what, line); !status.ok()) return status;
    Result<Event> read = ReadEvent(what);
    if (!read.ok()) return read.status();
    line->what = std::move(read).value();
    return Status();
  }
  if (!line->rank) return Status(StatusCode::kNotFound, "\"rank\" is missing; a beat must have one");
  return ReadBeat(what, &line->what.emplace<Beat>());
}

}  // namespace

Result<Line> ParseLine(std::string_view text_untrusted) {
  if (text_untrusted.size() > kLineBytesMax)
    return Status(StatusCode::kExhausted, "the line has more than " + std::to_string(kLineBytesMax) + " bytes");
  Result<SortedJson> parsed = bounded::ParseJson<SortedJson>(text_untrusted);
  if (parsed.status().code() == StatusCode::kInvalid)
    parsed = bounded::ParseJson<SortedJson>(json::MendJson(text_untrusted));
  if (parsed.status().code() == StatusCode::kExhausted)
    return Status(StatusCode::kExhausted, "the line " + parsed.status().message());
  if (!parsed.ok() || !parsed.value().is_object()) return Status(StatusCode::kInvalid, "the line is not a JSON object");
  const SortedJson& object = parsed.value();
  Line line;
  if (Status status = ReadHead(object, &line); !status.ok()) return status;
  if (Status status = ReadWhat(object, &line); !status.ok()) return status;
  if (Status status = ReadRun(object, &line); !status.ok()) return status;
  return line;
}

}  // namespace stepwatch::operations
