#include "controller/cli/watch_events.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "controller/cli/text_table.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::cli {
namespace {

using EventKind = WatchEvent::Kind;

double ToMicroseconds(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

WatchEvent WithoutBytes(EventKind kind, const watch::FileSnapshot& snapshot) {
  WatchEvent event;
  event.kind = kind;
  event.error = snapshot.error;
  return event;
}

}  // namespace

const char* WatchEventName(EventKind kind) {
  switch (kind) {
    case EventKind::kAccepted: return "accepted";
    case EventKind::kRefused: return "refused";
    case EventKind::kMissing: return "missing";
    case EventKind::kUnreadable: return "unreadable";
    case EventKind::kRestored: return "restored";
  }
  return "unknown";
}

std::string ToJsonLine(const WatchEvent& event, double seconds) {
  nlohmann::ordered_json object;
  object["event"] = WatchEventName(event.kind);
  if (!event.sha256.empty()) object["sha256"] = event.sha256;
  if (event.bytes >= 0) object["bytes"] = event.bytes;
  if (event.line > 0) object["line"] = event.line;
  if (event.column > 0) object["column"] = event.column;
  if (!event.error.empty()) object["error"] = event.error;
  for (const config::Warning& warning : event.warnings)
    object["warnings"].push_back({{"key", warning.place.key},
                                  {"line", warning.place.line},
                                  {"column", warning.place.column},
                                  {"message", warning.message}});
  object["t"] = ToMicroseconds(seconds);
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string ToHumanLine(const WatchEvent& event, double seconds) {
  std::string line = fmt::format("{:10.3f} s  {:<10}", seconds, WatchEventName(event.kind));
  if (event.bytes >= 0) line += fmt::format("  {} bytes, sha256 {}", event.bytes, event.sha256.substr(0, kHashShown));
  if (!event.error.empty()) line += (event.bytes >= 0 ? ": " : "  ") + event.error;
  for (const config::Warning& warning : event.warnings)
    line += fmt::format("\n{:>14}{:<10}  {}", "", "warning",
                        base::Printable(Status(StatusCode::kInvalid, warning.message, warning.place).ToString(), 1000));
  return line;
}

WatchEvent WatchEvents::OnChange(const watch::FileSnapshot& snapshot) {
  const bool was_troubled = is_troubled_;
  is_troubled_ = true;
  if (snapshot.kind == watch::SnapshotKind::kMissing) return WithoutBytes(EventKind::kMissing, snapshot);
  if (snapshot.kind != watch::SnapshotKind::kBytes) return WithoutBytes(EventKind::kUnreadable, snapshot);

  WatchEvent event;
  event.sha256 = snapshot.sha256;
  event.bytes = static_cast<int64_t>(snapshot.bytes.size());
  const Result<config::ParsedConfig> parsed = config::ParseConfig(snapshot.bytes);
  if (!parsed.ok()) {
    const Status refusal = parsed.status();
    event.kind = EventKind::kRefused;
    event.line = refusal.place().line;
    event.column = refusal.place().column;
    event.error = refusal.ToString();
    return event;
  }
  event.kind = was_troubled && snapshot.sha256 == accepted_ ? EventKind::kRestored : EventKind::kAccepted;
  event.warnings = parsed.value().warnings;
  accepted_ = snapshot.sha256;
  is_troubled_ = false;
  return event;
}

}  // namespace stepwatch::cli
