// SpliceDynamicOn: one token changes, everything else stays.

#include "tests/config/config_cases.h"
#include "tests/rounds.h"

namespace stepwatch::config {
namespace {

std::string Spliced(const std::string& text, bool on = false) {
  const Result<std::string> spliced = SpliceDynamicOn(text, on);
  INFO(text);
  INFO(spliced.status().ToString());
  REQUIRE(spliced.ok());
  return spliced.value();
}

TEST_CASE("only the top-level value of dynamic_on changes") {
  CHECK(Spliced("{\"dynamic_on\":true}") == "{\"dynamic_on\":false}");
  CHECK(Spliced("\xef\xbb\xbf{\r\n\t\"dynamic_on\" : true , // \"dynamic_on\": true\r\n \"ops\": []\r\n}\r\n") ==
        "\xef\xbb\xbf{\r\n\t\"dynamic_on\" : false , // \"dynamic_on\": true\r\n \"ops\": []\r\n}\r\n");
  CHECK(Spliced("/* \"dynamic_on\": true */{\"targets\":{\"dynamic_on\":{\"dynamic_on\":true}},\"dynamic_on\":true}") ==
        "/* \"dynamic_on\": true */{\"targets\":{\"dynamic_on\":{\"dynamic_on\":true}},\"dynamic_on\":false}");
  CHECK(Spliced("{\"dynamic\\u005fon\":/*true*/true//true\n}") == "{\"dynamic\\u005fon\":/*true*/false//true\n}");
  CHECK(Spliced("{\"x\": \"\\\"dynamic_on\\\": true, \", \"start_step\": 1,\"dynamic_on\":true}") ==
        "{\"x\": \"\\\"dynamic_on\\\": true, \", \"start_step\": 1,\"dynamic_on\":false}");
}

TEST_CASE("dynamic_on becomes true as it becomes false, and a text that has the value already stays") {
  const std::string off =
      "\xef\xbb\xbf{\r\n\t\"dynamic_on\" : false , // \"dynamic_on\": true\r\n \"ops\": []\r\n}\r\n";
  const std::string on = Spliced(off, true);
  CHECK(on == "\xef\xbb\xbf{\r\n\t\"dynamic_on\" : true , // \"dynamic_on\": true\r\n \"ops\": []\r\n}\r\n");
  CHECK(Spliced(on, true) == on);
  CHECK(Spliced(off, false) == off);
}

TEST_CASE("a text whose dynamic_on is missing or neither true nor false is refused") {
  const auto refusal = [](const std::string& text) {
    const Result<std::string> spliced = SpliceDynamicOn(text, false);
    REQUIRE_FALSE(spliced.ok());
    return spliced.status();
  };
  CHECK(refusal("{}").code() == StatusCode::kNotFound);
  CHECK(refusal("{\"targets\": {\"dynamic_on\": true}}").code() == StatusCode::kNotFound);
  CHECK(refusal("{\"dynamic_on\": \"true\"}").code() == StatusCode::kWrongType);
  CHECK(refusal("[true]").code() == StatusCode::kWrongType);
  CHECK(refusal("{\"dynamic_on\": true").code() == StatusCode::kInvalid);
  CHECK(refusal("{\"dynamic_on\": true, \"dynamic_on\": true}").code() == StatusCode::kInvalid);
  CHECK(refusal("").code() == StatusCode::kInvalid);
  CHECK(refusal("{\"dynamic_on\": 0}").place().column == 16);
}

TEST_CASE("a text that would outgrow the limit by its longer token is refused") {
  std::string text = "{\"dynamic_on\": true} //";
  text.resize(kConfigBytesMax, ' ');
  CHECK(ParseConfig(text).ok());
  CHECK(SpliceDynamicOn(text, false).status().code() == StatusCode::kExhausted);
  text.pop_back();
  CHECK(ParseConfig(Spliced(text)).ok());
}

// Writes a config with random members in random order, and remembers where the value of dynamic_on stands.
class RandomConfigText {
 public:
  explicit RandomConfigText(unsigned seed) : random_(seed) {}

  struct Written {
    std::string text;
    size_t value_begin;
  };

  Written Write() {
    static const std::vector<std::string> kMembers = {
        "\"targets\": {\"dynamic_on\": {\"dynamic_on\": true}, \"\\\\\\\"dynamic_on\\\": true\": {}}",
        "\"ops\": [\"norm\", \"caf\\u00e9\"]",
        "\"start_step\": 12",
        "\"eps\":1e-8",
        "\"unknown\": \"\\\"dynamic_on\\\": true // \"",
        "\"collect_times\": -1",
        "\"format\": \"层\"",
        "\"stepwatch\": {\"dynamic_on\": true}",
    };
    std::string text = OneOf({"", "\xef\xbb\xbf"}) + Gap() + "{" + Gap();
    size_t value_begin = 0;
    const size_t position = Below(kMembers.size() + 1);
    for (size_t i = 0; i <= kMembers.size(); ++i) {
      if (i > 0) text += "," + Gap();
      if (i == position) {
        text += Key() + Gap() + ":" + Gap();
        value_begin = text.size();
        text += "true" + Gap();
      } else {
        text += kMembers[i < position ? i : i - 1] + Gap();
      }
    }
    return {text + "}" + Gap(), value_begin};
  }

 private:
  size_t Below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  std::string OneOf(const std::vector<std::string>& choices) { return choices[Below(choices.size())]; }

  std::string Gap() {
    std::string gap;
    for (size_t n = Below(4); n > 0; --n)
      gap += OneOf({" ", "\t", "\n", "\r\n", "\r", "/**/", "/* \"dynamic_on\": true */", "// \"dynamic_on\": true\n",
                    "// é } \r\n", "/* * / { \" */"});
    return gap;
  }

  std::string Key() {
    static const char* const kHex = "0123456789abcdef";
    std::string key = "\"";
    for (const char c : std::string("dynamic_on")) {
      if (Below(4) == 0)
        key += std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
      else
        key += c;
    }
    return key + "\"";
  }

  std::mt19937 random_;
};

TEST_CASE("in a text of any formatting, the splice changes dynamic_on and no other byte", "[random]") {
  const unsigned seed = TestSeed();
  INFO(HowToRepeat(seed));
  RandomConfigText texts(seed);
  for (int i = 0; i < testing::Rounds(500); ++i) {
    const auto [text, value_begin] = texts.Write();
    INFO(text);
    const std::string after = Spliced(text);
    REQUIRE(after == text.substr(0, value_begin) + "false" + text.substr(value_begin + 4));
    REQUIRE(Spliced(after, true) == text);
    const ParsedConfig before_parsed = Accepted(text);
    ParsedConfig after_parsed = Accepted(after);
    REQUIRE(before_parsed.config.dynamic_on);
    REQUIRE_FALSE(after_parsed.config.dynamic_on);
    after_parsed.config.dynamic_on = true;
    REQUIRE(after_parsed.config == before_parsed.config);
    REQUIRE(after_parsed.warnings.size() == before_parsed.warnings.size());
    for (size_t k = 0; k < after_parsed.warnings.size(); ++k)
      REQUIRE(after_parsed.warnings[k].message == before_parsed.warnings[k].message);
  }
}

}  // namespace
}  // namespace stepwatch::config
