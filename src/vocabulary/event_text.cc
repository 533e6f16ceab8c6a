#include <fmt/format.h>

#include <string>

#include "src/base/text.h"
#include "stepwatch/event.h"

namespace stepwatch {
namespace {

constexpr size_t kMessageBytesMax = 1000;

std::string LedgerText(const Ledger& ledger) {
  std::string text = fmt::format("{} rows produced, {} written", ledger.produced, ledger.written);
  if (ledger.dropped_total() == 0) return text + ", 0 dropped";
  for (int i = 0; i < kDropReasonCount; ++i)
    if (const uint64_t count = ledger.dropped[static_cast<size_t>(i)])
      text += fmt::format(", {} dropped ({})", count, DropReasonName(static_cast<DropReason>(i)));
  return text;
}

std::string CostText(const Event& event) {
  if (event.collected <= 0) return "";
  return fmt::format("; measuring took {:.2f} ms a collected step",
                     event.busy_seconds * 1e3 / static_cast<double>(event.collected));
}

std::string PlaceText(const TextPlace& place) {
  std::string text;
  if (place.line > 0) text += fmt::format("line {}, column {}", place.line, place.column);
  if (!place.key.empty()) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", base::Printable(place.key));
  return text;
}

std::string Detail(const Event& event) {
  switch (event.kind) {
    case EventKind::kSeen:
      return fmt::format("{} ({} bytes, sha256 {}…)", event.message, event.bytes, event.sha256.substr(0, 12));
    case EventKind::kApplied: return fmt::format("first step {}", event.step);
    case EventKind::kFinished:
      return fmt::format("{}{} collected, {}", event.step < 0 ? "" : fmt::format("last step {}, ", event.step),
                         event.collected, event.message);
    case EventKind::kDrained: return LedgerText(event.ledger) + CostText(event);
    default: break;
  }
  const std::string place = PlaceText(event.place);
  return place.empty() ? event.message : place + ": " + event.message;
}

std::string Label(EventKind kind) {
  std::string label = EventKindName(kind);
  for (char& c : label)
    if (c == '_') c = ' ';
  return label;
}

}  // namespace

std::string EventText(const Event& event) {
  // The log line of msProbe, for users who search for it.
  if (event.kind == EventKind::kAlarm) return base::Printable("> " + event.message, kMessageBytesMax);
  // The level in front of a log line already marks it as a warning.
  if (event.kind == EventKind::kWarning && event.plan_id == 0) return base::Printable(Detail(event), kMessageBytesMax);
  std::string text =
      event.plan_id == 0 ? Label(event.kind) : fmt::format("plan {} {}", event.plan_id, Label(event.kind));
  const std::string detail = Detail(event);
  if (!detail.empty()) text += ": " + detail;
  return base::Printable(text, kMessageBytesMax);
}

}  // namespace stepwatch
