// The messages that docs/use/config.md shows are the ones that are given.

#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

const char* const kRefusedInDocs[] = {
    "{\n  \"ops\": [],\n  \"all_xy\": \"yes\"\n}",
    R"({"eps": 1})",
    R"({"ndigits": 21})",
    R"({"cc_distribution": {"enabled": true}})",
    R"({"alert": {"rules": [{"rule_name": "AnomalyTurbulence", "args": {"threshold": -0.5}}]}})",
    R"({"stepwatch": {"sites": [{"match": "layers.[ab"}]}})",
    "{\"dynamic_on\": true\n \"ops\": []}",
    R"({"dynamic_on": true,})",
    R"({"dynamic_on": True})",
    "{\"dynamic_on\": true, \"ops\": [\"norm\"\n",
    R"({"dynamic_on": true, "dynamic_on": false})",
    "{\"targets\": {\"caf\xe9\": {}}}",
};

const char* const kWarnedInDocs[] = {R"({"collect_time": 10})", R"({"collect_times": -1})", R"({"format": "parquet"})",
                                     R"({"ur_distribution": true})"};

TEST_CASE("every message shown in the documentation is a real one") {
  const std::string docs = ReadExample(std::string(STEPWATCH_SOURCE_DIR) + "/docs/use/config.md");
  for (const char* text : kRefusedInDocs) {
    const std::string message = RefusalOf(text).ToString();
    INFO(message);
    CHECK(Has(docs, "\n" + message + "\n"));
  }
  for (const char* text : kWarnedInDocs) {
    const Warning warning = Accepted(text).warnings.at(0);
    const std::string message = Status(StatusCode::kInvalid, warning.message, warning.place).ToString();
    INFO(message);
    CHECK(Has(docs, "\n" + message + "\n"));
  }
}

}  // namespace
}  // namespace stepwatch::config
