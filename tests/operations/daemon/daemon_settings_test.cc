#include "operations/daemon/daemon_settings.h"

#include <fstream>
#include <iterator>

#include "operations/daemon/detector_rules.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

Status RefusalOf(const std::string& text) {
  const auto parsed = ParseDaemonSettings(text);
  REQUIRE_FALSE(parsed.ok());
  return parsed.status();
}

TEST_CASE("an empty object is the defaults") {
  const auto parsed = ParseDaemonSettings("{}");
  REQUIRE(parsed.ok());
  CHECK(parsed.value().settings.store == StoreSettings());
  CHECK(parsed.value().settings.detectors == Settings());
  CHECK(parsed.value().warnings.empty());
}

TEST_CASE("every key is read into its place") {
  const auto parsed = ParseDaemonSettings(R"({
    // a comment
    "listen": {"tcp": "127.0.0.1:9465", "token_file": "/t", "name": "n", "readers": "g"},
    "store": {"lines_minutes": 1, "lines_mib": 2, "mib": 3, "ended_days": 4},
    "discovery": {"enabled": false, "directories": ["/a", "/b"]},
    "upstream": {"url": "http://h:1", "token_file": "/u", "spool_mib": 5},
    "gpu": {"source": "dcgm", "peak_flops": 989e12},
    "host": {"directories": ["/checkpoints"]},
    "maintenance": {"scontrol": "/usr/bin/scontrol", "labels_file": "/etc/podinfo/labels", "seconds": 30},
    "logs": {"syslog": "127.0.0.1:5514", "paths": ["/l/{run}.log"], "journal": ["train", "A=b"],
             "journal_directory": "/j", "kmsg": true, "nccl_ras": "",
             "outputs": [{"name": "all", "type": "file", "path": "/r.jsonl"}]},
    "detectors": {"stuck": {"silence_seconds_min": 60}, "numerics": {"spike_samples": 7}, "pace": {"drop_ratio": 0.5}}
  })");
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  const DaemonSettings& settings = parsed.value().settings;
  CHECK(settings.listen == ListenSettings{"127.0.0.1:9465", "/t", "n", "g"});
  CHECK(settings.store == StoreSettings{1, 2, 3, 4});
  CHECK(settings.discovery == DiscoverySettings{false, {"/a", "/b"}});
  CHECK(settings.upstream == UpstreamSettings{"http://h:1", "/u", 5});
  CHECK(settings.gpu == GpuSettings{"dcgm", 989e12});
  CHECK(settings.host == HostSettings{{"/checkpoints"}});
  CHECK(settings.maintenance == MaintenanceSettings{"/usr/bin/scontrol", "/etc/podinfo/labels", 30});
  CHECK(settings.logs.sent.syslog == "127.0.0.1:5514");
  CHECK(settings.logs.sent.paths == std::vector<std::string>{"/l/{run}.log"});
  CHECK(settings.logs.sent.journal == std::vector<std::string>{"train", "A=b"});
  CHECK(settings.logs.sent.journal_directory == "/j");
  CHECK(settings.logs.sent.kmsg);
  CHECK(settings.logs.sent.nccl_ras.empty());
  REQUIRE(settings.logs.outputs.size() == 1);
  CHECK(settings.logs.outputs[0].path == "/r.jsonl");
  CHECK(settings.detectors.stuck.silence_seconds_min == 60);
  CHECK(settings.detectors.numerics.spike_samples == 7);
  CHECK(settings.detectors.pace.drop_ratio == 0.5);
  CHECK(parsed.value().warnings.empty());
}

TEST_CASE("delivery is read whatever the order of its keys, with the link to an incident") {
  const auto parsed = ParseDaemonSettings(R"({
    "links": {"incident": "https://g/{run}"},
    "listen": {"public_url": "https://s"},
    "delivery": {
      "routes": [{"receivers": ["am"], "severity": ["critical", "info"], "owner": "o*", "run": "r*", "kind": "stuck"}],
      "receivers": [{"name": "am", "type": "alertmanager", "url": "http://h:9093", "lasts_seconds": 600},
                    {"name": "bot", "type": "feishu", "url_file": "/f", "language": "en", "per_minute": 5}],
      "language": "zh", "watchdog_url": "http://w", "watchdog_seconds": 5, "watchdog_expected_seconds": 7}
  })");
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  const delivery::DeliverySettings& settings = parsed.value().settings.delivery;
  CHECK(parsed.value().settings.listen.public_url == "https://s");
  CHECK(settings.link == "https://g/{run}");
  REQUIRE(settings.receivers.size() == 2);
  CHECK(settings.receivers[0].language == "zh");
  CHECK(settings.receivers[0].lasts_seconds == 600);
  CHECK(settings.receivers[1].language == "en");
  CHECK(settings.receivers[1].per_minute == 5);
  CHECK(settings.routes ==
        std::vector<delivery::Route>{{{"am"}, {Severity::kCritical, Severity::kInfo}, "o*", "r*", "stuck"}});
  CHECK(settings.watchdog_url == "http://w");
  CHECK(settings.watchdog_seconds == 5);
  CHECK(settings.watchdog_expected_seconds == 7);
  CHECK(RefusalOf(R"({"links": {"incident": "g"}})").place().key == "links.incident");
  CHECK(RefusalOf(R"({"delivery": {"watchdog_seconds": 0}})").place().key == "delivery.watchdog_seconds");
  CHECK(RefusalOf(R"({"delivery": {"receivers": {}}})").code() == StatusCode::kWrongType);
}

TEST_CASE("what cannot be used is refused with its place") {
  CHECK(RefusalOf(R"({"host": {"directories": ["here"]}})").code() == StatusCode::kOutOfRange);
  CHECK(RefusalOf(R"({"gpu": {"source": "smi"}})").message().find("nvml") != std::string::npos);
  const Status wrong = RefusalOf("{\n \"store\": {\"mib\": \"much\"}}");
  CHECK(wrong.code() == StatusCode::kWrongType);
  CHECK(wrong.place().key == "store.mib");
  CHECK(wrong.place().line == 2);
  CHECK(RefusalOf(R"({"store": {"mib": 0}})").code() == StatusCode::kOutOfRange);
  CHECK(RefusalOf(R"({"store": []})").code() == StatusCode::kWrongType);
  CHECK(RefusalOf(R"({"detectors": {"pace": {"drop_ratio": -1}}})").place().key == "detectors.pace.drop_ratio");
  CHECK(RefusalOf(R"({"upstream": {"url": "https://h"}})").place().key == "upstream.url");
  CHECK(RefusalOf(R"({"logs": {"syslog": "5514"}})").place().key == "logs.syslog");
  CHECK(RefusalOf(R"({"logs": {"syslog": "127.0.0.1:99999"}})").code() == StatusCode::kOutOfRange);
  CHECK(RefusalOf(R"({"logs": {"paths": ["{run}.log"]}})").place().key == "logs.paths");
  CHECK(RefusalOf(R"({"logs": {"journal": ["=a"]}})").place().key == "logs.journal");
  CHECK(RefusalOf(R"({"logs": {"journal_directory": "here"}})").place().key == "logs.journal_directory");
  CHECK(RefusalOf(R"({"logs": {"kmsg": 1}})").code() == StatusCode::kWrongType);
  CHECK(RefusalOf("{").code() == StatusCode::kInvalid);
  CHECK(RefusalOf("[]").code() != StatusCode::kOk);
}

TEST_CASE("a control socket to the network without a token is refused") {
  CHECK(RefusalOf(R"({"listen": {"tcp": "0.0.0.0:1"}})").place().key == "listen.tcp");
}

TEST_CASE("a key that is not known is a warning with the nearest one") {
  const auto parsed = ParseDaemonSettings(R"({"detectors": {"stuck": {"silence_second_min": 1}}})");
  REQUIRE(parsed.ok());
  REQUIRE(parsed.value().warnings.size() == 1);
  CHECK(parsed.value().warnings[0].place.key == "detectors.stuck.silence_second_min");
  CHECK_THAT(parsed.value().warnings[0].message, Catch::Contains("silence_seconds_min"));
}

TEST_CASE("each number of the detectors has a key") {
  std::ifstream file(STEPWATCH_SOURCE_DIR "/operations/detectors/settings.h");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  size_t keys = 0;
  const auto check = [&](const auto& rules) {
    for (const auto& rule : rules) {
      INFO(rule.text.key);
      CHECK(text.find(" " + std::string(rule.text.key) + " = ") != std::string::npos);
      ++keys;
    }
  };
  check(kStuckRules);
  check(kNumericsRules);
  check(kPaceRules);
  size_t numbers = 0;
  for (const char* type : {"  double ", "  int64_t "})
    for (size_t at = text.find(type); at != std::string::npos; at = text.find(type, at + 1)) ++numbers;
  CHECK(keys == numbers);
}

}  // namespace
}  // namespace stepwatch::operations
