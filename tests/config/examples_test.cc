// The parser over the examples that the schema is tested with (tests/front_ends/python/schema_test.py): they agree.

#include "tests/config/config_cases.h"
#include "tests/rounds.h"

namespace stepwatch::config {
namespace {

bool Begins(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

TEST_CASE("every good example is accepted, with warnings only where its name begins with warn") {
  const auto files = ExampleFiles("good");
  CHECK(files.size() >= 25);
  for (const auto& file : files) {
    INFO(file.string());
    const Result<ParsedConfig> parsed = ParseConfig(ReadExample(file));
    INFO(parsed.status().ToString());
    REQUIRE(parsed.ok());
    CHECK(parsed.value().warnings.empty() != Begins(file.filename().string(), "warn_"));
  }
}

TEST_CASE("every bad example is refused, with the code of its name") {
  const auto files = ExampleFiles("bad");
  CHECK(files.size() >= 45);
  for (const auto& file : files) {
    INFO(file.string());
    const std::string name = file.filename().string();
    const StatusCode code = RefusalOf(ReadExample(file)).code();
    const bool expected = Begins(name, "type_")     ? code == StatusCode::kWrongType
                          : Begins(name, "range_")  ? code == StatusCode::kOutOfRange
                          : Begins(name, "syntax_") ? code == StatusCode::kInvalid || code == StatusCode::kExhausted
                                                    : false;
    CHECK(expected);
  }
}

TEST_CASE("every prefix of a good example is refused as not JSON") {
  size_t first = 0;
  for (const auto& file : ExampleFiles("good")) {
    const std::string text = ReadExample(file);
    for (size_t bytes = first++ % testing::Every(7); bytes <= text.rfind('}'); bytes += testing::Every(7)) {
      const Result<ParsedConfig> parsed = ParseConfig(text.substr(0, bytes));
      if (!parsed.ok() && parsed.status().code() == StatusCode::kInvalid) continue;
      FAIL(file.string() << ": the first " << bytes << " bytes: " << parsed.status().ToString());
    }
  }
}

}  // namespace
}  // namespace stepwatch::config
