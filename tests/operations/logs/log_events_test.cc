#include "operations/logs/log_events.h"

#include <string>
#include <utility>

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

logs::Record Warning(const std::string& message, double t = 1000) {
  logs::Record record;
  record.level = logs::Level::kWarning;
  record.message = message;
  record.t = t;
  return record;
}

logs::Record Failure(const std::string& message, double t = 1000) {
  logs::Record record = Warning(message, t);
  record.exception = logs::Exception{"RuntimeError", message, "Traceback\nRuntimeError: " + message};
  return record;
}

logs::Record Error(const std::string& message, double t = 1000) {
  logs::Record record = Warning(message, t);
  record.level = logs::Level::kError;
  return record;
}

std::vector<std::string> MessagesOf(const LogEvents& events, const std::string& run) {
  std::vector<std::string> messages;
  for (const auto& each : events.Of(run)) messages.push_back(each->message);
  return messages;
}

TEST_CASE("Warnings, errors, anomalies and exceptions are kept, and ordinary lines are not") {
  LogEvents events;
  logs::Record plain;
  plain.level = logs::Level::kInfo;
  plain.message = "loaded shard 3";
  events.Add("run", plain);
  plain.progress = logs::Progress{7, false, {{"loss", 2.5}}};
  events.Add("run", plain);
  CHECK(events.Of("run").empty());
  CHECK_FALSE(events.Has("run"));

  logs::Record odd = plain;
  odd.message = "loss is nan";
  odd.anomalies.push_back({"loss_nonfinite", vocabulary::Severity::kCritical, logs::Role::kRoot, std::nullopt, {}});
  events.Add("run", odd);
  events.Add("run", Warning("slow"));
  events.Add("run", Error("broken"));
  events.Add("run", Failure("lost"));
  CHECK(MessagesOf(events, "run") == std::vector<std::string>{"loss is nan", "slow", "broken", "lost"});
  CHECK(events.Of("other").empty());
}

TEST_CASE("Kept records are in the order of their times, also those of two severities") {
  LogEvents events;
  events.Add("run", Failure("third", 3));
  events.Add("run", Warning("second", 2));
  logs::Record read = Error("first");
  read.t = std::nullopt;
  read.observed_t = 1;
  events.Add("run", read);
  CHECK(MessagesOf(events, "run") == std::vector<std::string>{"first", "second", "third"});
}

TEST_CASE("A record that comes twice with one id is kept once") {
  LogEvents events;
  logs::Record record = Warning("slow");
  record.id = "a:17";
  events.Add("run", record);
  events.Add("run", record);
  events.Add("other", record);
  CHECK(events.Of("run").size() == 1);
  CHECK(events.Of("other").size() == 1);
  record.id.clear();
  events.Add("run", record);
  events.Add("run", record);
  CHECK(events.Of("run").size() == 3);
}

TEST_CASE("The oldest and least severe records make room, and a flood of errors leaves the cause") {
  LogEvents events({size_t{64} << 10, size_t{1} << 20, 100});
  events.Add("run", Failure("the cause", 1));
  events.Add("run", Warning("early warning", 2));
  for (int i = 0; i < 5000; ++i) events.Add("run", Error("flood " + std::to_string(i), 10 + i));
  const std::vector<std::string> kept = MessagesOf(events, "run");
  CHECK(kept[0] == "the cause");
  CHECK(kept[1] == "early warning");  // within the share of warnings
  CHECK(kept.back() == "flood 4999");
  CHECK(kept.size() < 1000);
  CHECK(events.bytes() <= size_t{64} << 10);
  CHECK(events.dropped() + static_cast<int64_t>(kept.size()) == 5002);
}

TEST_CASE("A run with many records makes room before a run with few") {
  LogEvents events({size_t{64} << 10, size_t{160} << 10, 100});
  events.Add("small", Warning("the only one", 1));
  for (int run = 0; run < 8; ++run)
    for (int i = 0; i < 500; ++i) events.Add("large " + std::to_string(run), Warning("x", i));
  CHECK(MessagesOf(events, "small") == std::vector<std::string>{"the only one"});
  CHECK(events.bytes() <= size_t{160} << 10);
}

TEST_CASE("Beyond the limit of runs, the one without a record for the longest time goes") {
  LogEvents events({size_t{64} << 10, size_t{1} << 20, 3});
  for (int i = 0; i < 4; ++i) events.Add(std::to_string(i), Warning("x", i == 0 ? 100 : i));
  CHECK(events.Has("0"));
  CHECK_FALSE(events.Has("1"));
  CHECK(events.Has("3"));
  const size_t before = events.bytes();
  events.Forget("3");
  events.Forget("3");
  CHECK(events.bytes() < before);
}

TEST_CASE("Long texts of a kept record are cut between characters") {
  LogEvents events;
  std::string text;
  while (text.size() < 60000) text += "\xe6\xa2\xaf\xe5\xba\xa6";
  events.Add("run", Failure(text));
  const auto kept = events.Of("run").front();
  CHECK(kept->is_truncated);
  CHECK(kept->message.size() <= 16384);
  CHECK(kept->message.size() % 3 == 0);
  CHECK(kept->exception->stack.size() <= 16384);
  CHECK(events.bytes() < 60000);
}

}  // namespace
}  // namespace stepwatch::operations
