#include "operations/intake/take_beats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "operations/trace/parse_line.h"

namespace stepwatch::operations {
namespace {

Result<Line> Take(std::string_view text) {
  Result<Line> line = ParseLine(text);
  if (!line.ok()) return line;
  const auto* event = std::get_if<Event>(&line.value().what);
  if (event != nullptr && std::holds_alternative<ClockStepEvent>(*event))
    return Status(StatusCode::kUnsupported,
                  "clock_step is not accepted in a request: stepwatchd watches its own clock");
  if (line.value().run.empty()) return Status(StatusCode::kNotFound, "\"run\", the name of the run, is missing");
  return line;
}

void MoveTimes(std::optional<double> sent, double now, std::vector<Line>* lines) {
  double newest = -std::numeric_limits<double>::infinity();
  for (const Line& line : *lines) newest = std::max(newest, line.t);
  double difference = 0;
  if (sent)
    difference = now - *sent;
  else if (std::abs(now - newest) > kClockSecondsMax)
    difference = now - newest;
  for (Line& line : *lines) line.t = std::min(line.t + difference, now);
}

}  // namespace

bool BeatReader::ReadSome(int64_t lines_max) {
  for (const int64_t last = number_ + lines_max; !rest_.empty() && number_ < last;) {
    ++number_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<Line> line = Take(text);
    if (line.ok()) {
      taken_.lines.push_back(std::move(line).value());
    } else if (++taken_.refused <= static_cast<int64_t>(kRefusalsMax)) {
      taken_.refusals.emplace_back(number_, line.status().message());
    }
  }
  return !rest_.empty();
}

TakenBeats BeatReader::Finish(std::optional<double> sent, double now) {
  if (!taken_.lines.empty()) MoveTimes(sent, now, &taken_.lines);
  return std::move(taken_);
}

TakenBeats TakeBeats(std::string_view body_untrusted, std::optional<double> sent, double now) {
  BeatReader reader(body_untrusted);
  while (reader.ReadSome(std::numeric_limits<int32_t>::max())) {
  }
  return reader.Finish(sent, now);
}

}  // namespace stepwatch::operations
