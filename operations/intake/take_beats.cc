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
    return Status(StatusCode::kUnsupported, "a clock_step is told by the observer whose clock it is");
  if (line.value().run.empty()) return Status(StatusCode::kNotFound, "\"run\" is missing, the name of the run");
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

TakenBeats TakeBeats(std::string_view body_untrusted, std::optional<double> sent, double now) {
  TakenBeats taken;
  std::string_view rest = body_untrusted;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<Line> line = Take(text);
    if (line.ok()) {
      taken.lines.push_back(std::move(line).value());
    } else if (++taken.refused <= static_cast<int64_t>(kRefusalsMax)) {
      taken.refusals.emplace_back(number, line.status().message());
    }
  }
  if (!taken.lines.empty()) MoveTimes(sent, now, &taken.lines);
  return taken;
}

}  // namespace stepwatch::operations
