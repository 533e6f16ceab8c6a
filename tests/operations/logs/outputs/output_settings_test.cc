#include "operations/logs/outputs/output_settings.h"

#include "src/config/config_text.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations::outputs {
namespace {

using testing::Has;

Result<std::vector<OutputSettings>> Read(const std::string& list) {
  const std::string text = "{\"outputs\": " + list + "}";  // outlives the document
  const Result<config::JsonDocument> document = config::ReadConfigText(text);
  REQUIRE(document.ok());
  config::Notes notes(document.value());
  const config::Field top{document.value().root, ""};
  std::vector<OutputSettings> outputs;
  const Status status = ReadOutputs(config::MemberOf(top, document.value().root.children.front()), notes, outputs);
  if (!status.ok()) return status;
  return outputs;
}

TEST_CASE("each type of output has its keys and its defaults") {
  const auto outputs = Read(R"([
    {"name": "file", "type": "file", "path": "/var/log/stepwatch/records.jsonl", "file_mib": 10, "files": 3},
    {"name": "es", "type": "elasticsearch", "url": "https://es.example.org:9200/", "index": "logs-stepwatch-default",
     "api_key_file": "/etc/stepwatch/es_key", "ca_file": "/etc/ca.pem", "spool_mib": 64},
    {"name": "loki", "type": "otlp", "url": "http://loki:3100/otlp", "headers_file": "/etc/stepwatch/loki"}])");
  REQUIRE(outputs.ok());
  REQUIRE(outputs.value().size() == 3);
  CHECK(outputs.value()[0].files == 3);
  CHECK(outputs.value()[1].type == OutputType::kElasticsearch);
  CHECK(outputs.value()[1].url == "https://es.example.org:9200");
  CHECK(outputs.value()[2].spool_mib == 256);
}

TEST_CASE("settings that cannot work are refused with the key") {
  const std::pair<const char*, const char*> refused[] = {
      {"{}", "a list of outputs"},
      {R"([{"type": "file", "path": "/a"}])", "the key \"name\""},
      {R"([{"name": "a", "path": "/a"}])", "the key \"type\""},
      {R"([{"name": "a", "type": "kafka"}])", "\"file\", \"elasticsearch\" or \"otlp\""},
      {R"([{"name": "../a", "type": "file", "path": "/a"}])", "small letters"},
      {R"([{"name": "a", "type": "file"}])", "with \"path\""},
      {R"([{"name": "a", "type": "file", "path": "a"}])", "absolute path"},
      {R"([{"name": "a", "type": "file", "path": "/a", "index": "x"}])", "no \"index\" with the type \"file\""},
      {R"([{"name": "a", "type": "file", "path": "/a", "files": 0}])", "from 1 to 100"},
      {R"([{"name": "a", "type": "elasticsearch", "url": "http://es:9200"}])", "with \"index\""},
      {R"([{"name": "a", "type": "elasticsearch", "url": "http://es", "index": "a/_doc"}])", "small letters"},
      {R"([{"name": "a", "type": "elasticsearch", "url": "http://es", "index": "Logs"}])", "small letters"},
      {R"([{"name": "a", "type": "otlp", "url": "http://user:pass@host"}])", "without a user"},
      {R"([{"name": "a", "type": "otlp", "url": "file:///etc/passwd"}])", "http or https"},
      {R"([{"name": "a", "type": "otlp", "url": ""}])", "http or https"},
      {R"([{"name": "a", "type": "otlp", "url": "http://h", "headers": "X: 1"}])", "headers_file"},
      {R"([{"name": "a", "type": "otlp", "url": "http://h"}, {"name": "a", "type": "otlp", "url": "http://g"}])",
       "no other output"},
      {R"([{"name": "a", "type": "file", "path": "/x"}, {"name": "b", "type": "file", "path": "/x"}])",
       "a path that no other output has"},
  };
  for (const auto& [list, message] : refused) {
    const auto outputs = Read(list);
    INFO(list);
    REQUIRE_FALSE(outputs.ok());
    INFO(outputs.status().message());
    CHECK(Has(outputs.status().message(), message));
    CHECK_FALSE(Has(outputs.status().message(), "pass@"));
  }
}

}  // namespace
}  // namespace stepwatch::operations::outputs
