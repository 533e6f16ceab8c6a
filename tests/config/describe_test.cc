// Schema and documentation agree with the table of config keys.

#include "src/config/describe.h"

#include "src/config/fields.h"
#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

const char* const kHowToMend = "to write them anew: ninja -C BUILD config_texts && BUILD/bin/config_texts .";

std::string ReadFromRoot(const std::string& path) {
  return ReadExample(std::string(STEPWATCH_SOURCE_DIR) + "/" + path);
}

TEST_CASE("the schema in the tree is the one that the table of keys makes") {
  INFO(kHowToMend);
  CHECK(ReadFromRoot("schemas/config.schema.json") == SchemaText());
}

TEST_CASE("the tables in the documentation are those that the table of keys makes") {
  INFO(kHowToMend);
  const std::string document = ReadFromRoot("docs/use/config.md");
  CHECK(document == WithTables(document));
  for (const char* name : {"what", "when", "output", "alert", "features", "stepwatch", "sites", "budget"})
    CHECK(Has(document, "<!-- keys: " + std::string(name) + " -->\n| key | type |"));
}

TEST_CASE("a table that was tampered with is made anew and the text around it stays") {
  const std::string document = "before\n<!-- keys: when -->\n| stale |\n<!-- end -->\nafter\n";
  const std::string made = WithTables(document);
  CHECK(made.find("before\n<!-- keys: when -->\n| key |") == 0);
  CHECK(Has(made, "| `start_step` | integer ≥ 0 | `0` | first collected step |"));
  CHECK_FALSE(Has(made, "stale"));
  CHECK(Has(made, "<!-- end -->\nafter\n"));
  CHECK(WithTables(made) == made);
  CHECK(WithTables("a text without tables") == "a text without tables");
}

TEST_CASE("every default in the table is the one that a config without the key has") {
  for (const auto rules : {SelectionFields(), WindowFields(), OutputFields(), AlertFields(), FeatureFields()}) {
    for (const KeyRule<Config>& rule : rules) {
      if (rule.text.fallback.empty()) continue;
      INFO(rule.text.key);
      const std::string text = "{\"" + std::string(rule.text.key) + "\": " + std::string(rule.text.fallback) + "}";
      CHECK(Accepted(text).config == Accepted("{}").config);
      CHECK(Accepted(text).warnings.empty());
    }
  }
  for (const KeyRule<OwnOptions>& rule : InsideStepwatch()) {
    if (rule.text.fallback.empty()) continue;
    INFO(rule.text.key);
    const std::string text =
        R"({"stepwatch": {")" + std::string(rule.text.key) + "\": " + std::string(rule.text.fallback) + "}}";
    CHECK(Accepted(text).config == Accepted("{}").config);
  }
}

}  // namespace
}  // namespace stepwatch::config
