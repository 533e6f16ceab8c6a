#include "operations/intake/cause_line.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

logs::Record At(double t, int64_t rank, const std::string& message, std::string_view anomaly, logs::Role role) {
  logs::Record record;
  record.id = message;
  record.source = "/logs/rank" + std::to_string(rank) + ".log";
  record.observed_t = t;
  record.rank = rank;
  record.level = logs::Level::kError;
  record.message = message;
  if (!anomaly.empty()) record.anomalies.push_back({anomaly, vocabulary::Severity::kCritical, role, {}, {}});
  return record;
}

Incident OpenedAt(double t) {
  Incident incident;
  incident.run = "r";
  incident.opened_t = t;
  return incident;
}

TEST_CASE("the line of the cause is named before those of its consequences, whatever their order") {
  LogEvents events;
  events.Add("r", At(999, 0, "connection reset", "connection_reset", logs::Role::kCascade));
  events.Add("r", At(1001, 3, "out of memory\x1b[1m", "device_oom", logs::Role::kRoot));
  events.Add("other", At(998, 1, "ECC error", "device_oom", logs::Role::kRoot));
  const Json line = CauseLine(events, OpenedAt(1000));
  CHECK(line["rank"] == 3);
  CHECK(line["anomaly"] == "device_oom");
  CHECK(line["source"] == "/logs/rank3.log");
  CHECK(line["text"].get<std::string>().find('\x1b') == std::string::npos);
}

TEST_CASE("without an anomaly the first exception is the line, and without one there is none") {
  LogEvents events;
  CHECK(CauseLine(events, OpenedAt(1000)).is_null());
  logs::Record record = At(1000, 2, "", "", logs::Role::kRoot);
  record.exception = logs::Exception{"ValueError", "bad sample", "stack"};
  events.Add("r", record);
  CHECK(CauseLine(events, OpenedAt(1000))["text"] == "ValueError: bad sample");
}

TEST_CASE("lines from long before the incident or long after it are not its cause") {
  LogEvents events;
  events.Add("r", At(50, 0, "old", "device_oom", logs::Role::kRoot));
  events.Add("r", At(2000, 0, "new", "device_oom", logs::Role::kRoot));
  CHECK(CauseLine(events, OpenedAt(1000)).is_null());
}

}  // namespace
}  // namespace stepwatch::operations
