// Words in which the config tests are written.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "src/config/parse_config.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/random_seed.h"

namespace stepwatch::config {

using testing::Has;

// A text with a '^' before the place that the refusal or warning must name.
struct MarkedText {
  std::string text;
  int line = 1;
  int column = 1;
};

inline MarkedText Unmark(const std::string& marked) {
  MarkedText result;
  const size_t mark = marked.find('^');
  REQUIRE(mark != std::string::npos);
  for (size_t i = 0; i < mark; ++i) {
    const bool continues_character = (static_cast<unsigned char>(marked[i]) & 0xc0) == 0x80;
    if (!continues_character) ++result.column;
    if (marked[i] == '\n') {
      ++result.line;
      result.column = 1;
    }
  }
  result.text = marked.substr(0, mark) + marked.substr(mark + 1);
  return result;
}

inline Status RefusalOf(const std::string& text) {
  const Result<ParsedConfig> parsed = ParseConfig(text);
  INFO(text);
  REQUIRE_FALSE(parsed.ok());
  return parsed.status();
}

// The refusal of the text, whose place must be the marked one.
inline Status RefusalAtMark(const std::string& text) {
  const MarkedText marked = Unmark(text);
  const Status status = RefusalOf(marked.text);
  INFO(marked.text);
  INFO(status.ToString());
  CHECK(status.place().line == marked.line);
  CHECK(status.place().column == marked.column);
  return status;
}

inline ParsedConfig Accepted(const std::string& text) {
  const Result<ParsedConfig> parsed = ParseConfig(text);
  INFO(text);
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  return parsed.value();
}

inline std::vector<std::filesystem::path> ExampleFiles(const std::string& kind) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(STEPWATCH_SOURCE_DIR) + "/schemas/examples/" + kind))
    files.push_back(entry.path());
  return files;
}

inline std::string ReadExample(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline unsigned TestSeed() {
  return static_cast<unsigned>(test::RandomSeed());
}

inline std::string HowToRepeat(unsigned seed) {
  return "repeat with: STEPWATCH_SEED=" + std::to_string(seed) + " bin/config_test";
}

inline constexpr StatusCode kType = StatusCode::kWrongType;
inline constexpr StatusCode kRange = StatusCode::kOutOfRange;

}  // namespace stepwatch::config
