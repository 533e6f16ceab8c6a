#include "controller/cli/watch.h"

#include <nlohmann/json.hpp>
#include <string>

#include "src/base/sha256.h"
#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

using Kind = WatchEvent::Kind;

watch::FileSnapshot Bytes(const std::string& bytes) {
  watch::FileSnapshot snapshot;
  snapshot.kind = watch::SnapshotKind::kBytes;
  snapshot.bytes = bytes;
  snapshot.sha256 = base::Sha256Hex(bytes);
  return snapshot;
}

watch::FileSnapshot Missing() {
  watch::FileSnapshot snapshot;
  snapshot.error = "config.json is missing";
  return snapshot;
}

watch::FileSnapshot Unreadable() {
  watch::FileSnapshot snapshot;
  snapshot.kind = watch::SnapshotKind::kUnreadable;
  snapshot.error = "config.json is a directory; a config must be a regular file";
  return snapshot;
}

const char kGood[] = "{\"dynamic_on\": true}";
const char kOther[] = "{\"dynamic_on\": false}";
const char kBad[] = "{\n  \"dynamic_on\": tru\n}";

}  // namespace

TEST_CASE("good bytes are accepted, bad ones refused with their place") {
  WatchEvents events;
  const WatchEvent good = events.OnChange(Bytes(kGood));
  CHECK(good.kind == Kind::kAccepted);
  CHECK(good.sha256 == base::Sha256Hex(kGood));
  CHECK(good.bytes == 20);
  CHECK(good.error.empty());
  const WatchEvent bad = events.OnChange(Bytes(kBad));
  CHECK(bad.kind == Kind::kRefused);
  CHECK(bad.sha256 == base::Sha256Hex(kBad));
  CHECK(bad.line == 2);
  CHECK(bad.column > 0);
  CHECK_FALSE(bad.error.empty());
}

TEST_CASE("a warning about accepted bytes has key and place") {
  WatchEvents events;
  const WatchEvent soon =
      events.OnChange(Bytes("{\"dynamic_on\": true,\n \"start_step\": \"soon\", \"step_intervall\": 2}"));
  CHECK(soon.kind == Kind::kAccepted);
  REQUIRE(soon.warnings.size() == 2);
  const auto json = nlohmann::json::parse(ToJsonLine(soon, 0));
  CHECK(json["warnings"][0]["key"] == "start_step");
  CHECK(json["warnings"][0]["line"] == 2);
  CHECK(json["warnings"][0]["column"] == 16);
  CHECK(json["warnings"][0]["message"] == "found \"soon\" (a string); accepted: an integer, at least 0; 0 is used");
  CHECK(json["warnings"][1]["key"] == "step_intervall");
  const std::string text = ToHumanLine(soon, 0);
  CHECK(text.find("\n              warning     line 2, column 16, \"start_step\": found \"soon\"") !=
        std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(ToJsonLine(events.OnChange(Bytes(kGood)), 0)).contains("warnings"));
}

TEST_CASE("the accepted bytes are restored after each kind of trouble, other bytes are accepted") {
  for (const watch::FileSnapshot& trouble : {Bytes(kBad), Missing(), Unreadable()}) {
    WatchEvents events;
    events.OnChange(Bytes(kGood));
    events.OnChange(trouble);
    CHECK(events.OnChange(Bytes(kGood)).kind == Kind::kRestored);
    events.OnChange(trouble);
    CHECK(events.OnChange(Bytes(kOther)).kind == Kind::kAccepted);
    events.OnChange(trouble);
    CHECK(events.OnChange(Bytes(kGood)).kind == Kind::kAccepted);
  }
}

TEST_CASE("going back to older good bytes is a new edit, not a restoration") {
  WatchEvents events;
  events.OnChange(Bytes(kGood));
  events.OnChange(Bytes(kOther));
  CHECK(events.OnChange(Bytes(kGood)).kind == Kind::kAccepted);
}

TEST_CASE("nothing is restored before something was accepted") {
  WatchEvents events;
  CHECK(events.OnChange(Missing()).kind == Kind::kMissing);
  CHECK(events.OnChange(Bytes(kBad)).kind == Kind::kRefused);
  CHECK(events.OnChange(Unreadable()).kind == Kind::kUnreadable);
  CHECK(events.OnChange(Bytes(kGood)).kind == Kind::kAccepted);
}

TEST_CASE("a line of JSON holds the fields that apply and no others") {
  WatchEvents events;
  const auto good = nlohmann::json::parse(ToJsonLine(events.OnChange(Bytes(kGood)), 0.25));
  CHECK(good == nlohmann::json{{"event", "accepted"}, {"sha256", base::Sha256Hex(kGood)}, {"bytes", 20}, {"t", 0.25}});
  const auto bad = nlohmann::json::parse(ToJsonLine(events.OnChange(Bytes(kBad)), 1));
  CHECK(bad.size() == 7);
  CHECK(bad["event"] == "refused");
  CHECK(bad["line"] == 2);
  const auto missing = nlohmann::json::parse(ToJsonLine(events.OnChange(Missing()), 1));
  CHECK(missing == nlohmann::json{{"event", "missing"}, {"error", "config.json is missing"}, {"t", 1.0}});
}

TEST_CASE("a line stays one line of UTF-8, whatever the error quotes") {
  WatchEvent event;
  event.kind = Kind::kUnreadable;
  event.error = "bad \xff\n\"name\"";
  const std::string line = ToJsonLine(event, 0);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(nlohmann::json::parse(line)["error"] == "bad \xef\xbf\xbd\n\"name\"");
}

TEST_CASE("a line for people names the event, the size and the reason") {
  WatchEvents events;
  CHECK(ToHumanLine(events.OnChange(Bytes(kGood)), 1).find("accepted    20 bytes") != std::string::npos);
  CHECK(ToHumanLine(events.OnChange(Missing()), 1).find("config.json is missing") != std::string::npos);
}

}  // namespace stepwatch::cli
