#include "operations/trace/parse_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/trace/mend_json.h"
#include "operations/trace/parse_event.h"
#include "operations/trace/read_json.h"
#include "src/json/parse_json.h"

namespace stepwatch::operations {
namespace {

constexpr double kTimeMax = 1e12;  // some 30,000 years

Status ReadReported(const std::string& key, const Json& value, Beat* beat) {
  std::optional<double> number;
  if (!ReadLooseNumber(value, &number) || !number || key.size() > kNameBytesMax) return Status();
  if (beat->reported.size() == kReportedMax)
    return Status(StatusCode::kExhausted,
                  "a beat reports more than " + std::to_string(kReportedMax) + " numbers; send fewer at a time");
  beat->reported.emplace_back(key, *number);
  return Status();
}

std::optional<double>* NumberOf(Beat* beat, std::string_view key) {
  if (key == "loss") return &beat->loss;
  if (key == "grad_norm") return &beat->grad_norm;
  if (key == "lr") return &beat->lr;
  if (key == "tokens") return &beat->tokens;
  if (key == "samples") return &beat->samples;
  if (key == "step_seconds") return &beat->step_seconds;
  if (key == "loss_scale") return &beat->loss_scale;
  return nullptr;
}

Status ReadBeat(const Json& object, Beat* beat) {
  for (const auto& [key, value] : object.items()) {
    Status status;
    if (value.is_null()) continue;
    if (std::optional<double>* number = NumberOf(beat, key)) {
      (void)ReadLooseNumber(value, number);
    } else if (key == "step") {
      status = ReadWhole(value, key, &beat->step);
    } else if (key == "phase") {
      if (value.is_string()) beat->phase = PhaseNamed(value.get_ref<const std::string&>());
    } else if (key == "module") {
      (void)ReadText(value, key, kNameBytesMax, &beat->module);
    } else {
      status = ReadReported(key, value, beat);
    }
    if (!status.ok()) return status;
  }
  if (beat->step && *beat->step < -1)
    return Status(StatusCode::kOutOfRange, "\"step\" must be the last finished step, or -1 before the first");
  return Status();
}

Status ReadRank(const Json& object, Line* line) {
  if (const Json* rank = Member(object, "rank"))
    if (Status status = ReadWhole(*rank, "rank", &line->rank); !status.ok()) return status;
  if (line->rank && (*line->rank < 0 || *line->rank > kRankMax))
    return Status(StatusCode::kOutOfRange, "\"rank\" must be 0 to " + std::to_string(kRankMax));
  return Status();
}

// A clock is that of the observer, and a host or a GPU may be that of many runs.
bool NeedsRun(const Line& line) {
  const auto* event = std::get_if<Event>(&line.what);
  return event == nullptr || (!std::holds_alternative<ClockStepEvent>(*event) &&
                              !std::holds_alternative<HostEvent>(*event) && !std::holds_alternative<GpuEvent>(*event));
}

Status ReadRun(const Json& object, Line* line) {
  const Json* run = Member(object, "run");
  if (run == nullptr)
    return NeedsRun(*line) ? Status(StatusCode::kNotFound, "\"run\", the name of the run, is missing") : Status();
  if (!run->is_string()) return Status(StatusCode::kWrongType, "\"run\" must be text");
  line->run = run->get_ref<const std::string&>();
  if (line->run.empty() || line->run.size() > kRunBytesMax)
    return Status(StatusCode::kOutOfRange, "\"run\" must have 1 to " + std::to_string(kRunBytesMax) + " bytes");
  return Status();
}

Status ReadHead(const Json& object, Line* line) {
  std::optional<double> t;
  const Json* time = Member(object, "t");
  if (time == nullptr)
    return Status(StatusCode::kNotFound, "\"t\", the time of the observer's clock in seconds, is missing");
  if (Status status = ReadNumber(*time, "t", &t); !status.ok()) return status;
  if (!std::isfinite(*t) || std::abs(*t) > kTimeMax)
    return Status(StatusCode::kOutOfRange, "\"t\" must be a time in seconds, from -1e12 to 1e12");
  line->t = *t;
  return ReadRank(object, line);
}

Status ReadWhat(const Json& object, Line* line) {
  const Json* beat = Member(object, "beat");
  const Json* event = Member(object, "event");
  if ((beat == nullptr) == (event == nullptr))
    return Status(StatusCode::kInvalid, "a line must have either \"beat\" or \"event\"");
  const Json& what = beat != nullptr ? *beat : *event;
  if (!what.is_object())
    return Status(StatusCode::kWrongType,
                  std::string(beat != nullptr ? "\"beat\"" : "\"event\"") + " must be an object");
  if (event != nullptr) {
    // The rank of an event may stand with it.
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
  Result<Json> parsed = bounded::ParseJson<Json>(text_untrusted);
  if (parsed.status().code() == StatusCode::kInvalid) parsed = bounded::ParseJson<Json>(MendJson(text_untrusted));
  if (parsed.status().code() == StatusCode::kExhausted)
    return Status(StatusCode::kExhausted, "the line " + parsed.status().message());
  if (!parsed.ok() || !parsed.value().is_object()) return Status(StatusCode::kInvalid, "the line is not a JSON object");
  const Json& object = parsed.value();
  Line line;
  if (Status status = ReadHead(object, &line); !status.ok()) return status;
  if (Status status = ReadWhat(object, &line); !status.ok()) return status;
  if (Status status = ReadRun(object, &line); !status.ok()) return status;
  return line;
}

}  // namespace stepwatch::operations
