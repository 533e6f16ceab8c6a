// Fields that the program sets, against a file that sets the same.
#include "src/config/amend.h"

#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

std::string Quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return "[" + text + "]";
}

TEST_CASE("ops by names are the ops of a file that lists them, warnings included") {
  const std::vector<std::vector<std::string>> lists = {{},
                                                       {"norm"},
                                                       {"max", "min"},
                                                       {"dtype", "max"},
                                                       {"nrom", "max"},
                                                       {"max", "max"},
                                                       {"average"},
                                                       {"shape"},
                                                       std::vector<std::string>(200, "bad")};
  for (const auto& names : lists) {
    const ParsedConfig parsed = Accepted("{\"ops\": " + Quoted(names) + "}");
    INFO(Quoted(names));
    std::vector<Warning> warnings;
    CHECK(OpsFromNames(names, &warnings) == parsed.config.ops);
    for (const Warning& warning : warnings) CHECK(warning.place.key == "ops");
    CHECK(warnings.size() == std::min<size_t>(parsed.warnings.size(), 101));
  }
}

TEST_CASE("a name from the program is printed as text, however it is made") {
  std::vector<Warning> warnings;
  (void)OpsFromNames({"no\nrm\x1b[31m" + std::string(1000, 'x')}, &warnings);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].message.find_first_of("\n\x1b") == std::string::npos);
  CHECK(warnings[0].message.size() < 300);
}

TEST_CASE("xy_distribution by a call is that of a file, all_xy included") {
  for (const char* targets : {"{}", R"({"fc": {}})"}) {
    INFO(targets);
    const std::string rest = std::string(", \"targets\": ") + targets + "}";
    Config config = Accepted("{\"xy_distribution\": false" + rest).config;
    SetXyDistribution(true, &config);
    CHECK(config == Accepted("{\"xy_distribution\": true" + rest).config);
    SetXyDistribution(false, &config);
    CHECK_FALSE(config.xy_distribution);
  }
}

}  // namespace
}  // namespace stepwatch::config
