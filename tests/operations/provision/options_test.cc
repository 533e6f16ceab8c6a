#include "operations/provision/options.h"

#include <functional>

#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations {
namespace {

using Change = std::function<void(ProvisionOptions*)>;

TEST_CASE("the defaults and all options together are accepted") {
  ProvisionOptions options;
  CHECK(CheckProvisionOptions(options).ok());
  options.email = "on-call+night@example.org";
  options.email_from = "alerts@example.org";
  options.smtp = "mail.example.org:587";
  options.slack = "#oncall";
  options.teams = {"gpu=g@example.org", "training=t@example.org"};
  options.alertmanagers = {"10.0.0.1:9093", "[::1]:9093"};
  options.grafana = "https://grafana.example.org/";
  options.runbook = "https://wiki.example.org/alerts#";
  for (const char* version : {"2.42", "2.42.0", "2.53", "3.0", "3.5.1"}) {
    options.prometheus = version;
    CHECK(CheckProvisionOptions(options).ok());
  }
}

TEST_CASE("no text of an option can leave its place in YAML, a shell or a template") {
  const std::pair<const char*, Change> refused[] = {
      {"--prometheus", [](auto* options) { options->prometheus = "2.41"; }},
      {"--prometheus", [](auto* options) { options->prometheus = "4.0"; }},
      {"--prometheus", [](auto* options) { options->prometheus = "2.42.x"; }},
      {"--prometheus", [](auto* options) { options->prometheus = ""; }},
      {"--cluster", [](auto* options) { options->cluster = ""; }},
      {"--cluster", [](auto* options) { options->cluster = "a\"\nb: c"; }},
      {"--replica", [](auto* options) { options->replica = "@cluster@"; }},
      {"--interval", [](auto* options) { options->interval_seconds = 0; }},
      {"--interval", [](auto* options) { options->interval_seconds = 301; }},
      {"--stepwatchd", [](auto* options) { options->stepwatchd.clear(); }},
      {"--stepwatchd", [](auto* options) { options->stepwatchd = {"host"}; }},
      {"--node", [](auto* options) { options->nodes = {"host:0"}; }},
      {"--node", [](auto* options) { options->nodes = {"host:65536"}; }},
      {"--dcgm", [](auto* options) { options->dcgm = {"ho st:1"}; }},
      {"--alertmanager", [](auto* options) { options->alertmanagers.clear(); }},
      {"--alertmanager", [](auto* options) { options->alertmanagers.assign(1001, "h:1"); }},
      {"--secrets", [](auto* options) { options->secrets = "relative"; }},
      {"--secrets", [](auto* options) { options->secrets = "/a:ro"; }},
      {"--notify", [](auto* options) { options->notify = "../admin"; }},
      {"--email", [](auto* options) { options->email = "a@b@c"; }},
      {"--email", [](auto* options) { options->email = "a@example.org"; }},  // without a server
      {"--slack", [](auto* options) { options->slack = "#a b"; }},
      {"--team", [](auto* options) { options->teams = {"sales=a@b.org"}; }},
      {"--grafana", [](auto* options) { options->grafana = "javascript:x"; }},
      {"--runbook", [](auto* options) { options->runbook = "http://a/{{ x }}"; }},
      {"--logs", [](auto* options) { options->logs = "*.log"; }},
      {"--logs", [](auto* options) { options->logs = "/*"; }},
      {"--logs", [](auto* options) { options->logs = "/var/*/a.log"; }},
      {"--logs", [](auto* options) { options->logs = "/var/log/a\"b.log"; }},
      {"--syslog", [](auto* options) { options->syslog = "5514"; }},
      {"--elasticsearch", [](auto* options) { options->elasticsearch = "es:9200"; }},
  };
  for (const auto& [option, change] : refused) {
    ProvisionOptions options;
    change(&options);
    if (options.teams.size() == 1) options.smtp = "h:25", options.email_from = "a@b.org";
    const Status status = CheckProvisionOptions(options);
    INFO(option << " " << status.message());
    REQUIRE_FALSE(status.ok());
    CHECK(testing::Has(status.message(), option));
    CHECK(testing::Has(status.message(), "no file was written"));
  }
}

}  // namespace
}  // namespace stepwatch::operations
