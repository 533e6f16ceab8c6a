// The bounds of JSON from other programs.

#include "src/json/parse_json.h"

#include <sstream>
#include <string>

#include "tests/catch.h"

namespace stepwatch::bounded {
namespace {

using Json = nlohmann::ordered_json;

std::string Nested(int depth, const std::string& open = "[", const std::string& close = "]") {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

Result<Json> ParseStream(const std::string& text) {
  std::istringstream stream(text);
  return ParseJson<Json>(stream, [](int, Json::parse_event_t, const Json&) { return true; });
}

TEST_CASE("JSON is taken up to a depth, as a text and as a stream") {
  for (const auto& [open, close] : {std::pair("[", "]"), {"{\"a\":", "}"}, {"[{\"]\\\"[\":", "}]"}}) {
    const int levels = std::string(open).front() == '[' && std::string(close) == "}]" ? 2 : 1;
    const std::string fits = Nested(kJsonDepthMax / levels, open, close);
    CHECK(ParseJson<Json>(fits).ok());
    CHECK(ParseStream(fits).ok());
    for (const int depth : {kJsonDepthMax / levels + 1, 120000}) {
      CHECK(ParseJson<Json>(Nested(depth, open, close)).status().code() == StatusCode::kExhausted);
      CHECK(ParseStream(Nested(depth, open, close)).status().code() == StatusCode::kExhausted);
    }
  }
}

TEST_CASE("Brackets in a text, and lists behind one another, are no depth") {
  const std::string brackets = "\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"";
  std::string row = "[" + brackets;
  for (int i = 0; i < 1000; ++i) row += ",[]";
  CHECK(ParseJson<Json>(row + "]").ok());
}

TEST_CASE("A text that is no JSON is refused, as a stream too") {
  for (const char* text : {"", "{", "[1,]", "nan", "{\"a\":1}{", "1e999", "\"\xff\""}) {
    CHECK(ParseJson<Json>(text).status().code() == StatusCode::kInvalid);
    CHECK(ParseStream(text).status().code() == StatusCode::kInvalid);
  }
}

}  // namespace
}  // namespace stepwatch::bounded
