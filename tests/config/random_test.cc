// Random bytes cause no crash: the answer is a sentence, with places inside the text.

#include <algorithm>

#include "tests/config/config_cases.h"
#include "tests/rounds.h"

namespace stepwatch::config {
namespace {

// The number of characters of each line, by a plain walk. A byte that is not UTF-8 counts like a character.
std::vector<int> LineLengths(const std::string& text) {
  std::vector<int> lengths = {0};
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends_line = text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++lengths.back();
    if (ends_line) lengths.push_back(0);
  }
  return lengths;
}

bool IsInside(const TextPlace& place, const std::vector<int>& line_lengths) {
  if (place.line < 1 || place.line > static_cast<int>(line_lengths.size())) return false;
  return place.column >= 1 && place.column <= line_lengths[static_cast<size_t>(place.line) - 1] + 1;
}

bool IsPrintable(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

void CheckAnyText(const std::string& text) {
  const Result<ParsedConfig> parsed = ParseConfig(text);
  const std::vector<int> line_lengths = LineLengths(text);
  INFO("text: " << text);
  if (!parsed.ok()) {
    const Status status = parsed.status();
    INFO(status.ToString());
    if (!IsInside(status.place(), line_lengths)) FAIL("the place lies outside the text");
    if (!IsPrintable(status.ToString())) FAIL("the message has control characters");
    return;
  }
  for (const Warning& warning : parsed.value().warnings) {
    INFO(warning.message);
    if (!IsInside(warning.place, line_lengths)) FAIL("the place lies outside the text");
    if (!IsPrintable(warning.message + warning.place.key)) FAIL("the message has control characters");
  }
}

std::string Mutate(std::string text, std::mt19937& random) {
  static const std::string kLikely = "{}[]:,\"\\/*-+.eE0179tfnu \t\r\n\x01\x7f\xff\xc3\xe2";
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = below(text.size() + 1);
    const char byte = below(2) == 0 ? kLikely[below(kLikely.size())] : static_cast<char>(below(256));
    switch (below(5)) {
      case 0: text.insert(at, 1, byte); break;
      case 1: text.erase(at, 1 + below(3)); break;
      case 2: text.insert(at, text.substr(below(text.size() + 1), below(20))); break;
      case 3: text.resize(at); break;
      default:
        if (at < text.size()) text[at] = byte;
    }
  }
  return text;
}

TEST_CASE("mutated configs never crash the parser and never give a place outside the text", "[random]") {
  const unsigned seed = TestSeed();
  INFO(HowToRepeat(seed));
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (const char* kind : {"good", "bad"})
    for (const auto& file : ExampleFiles(kind)) texts.push_back(ReadExample(file));
  std::sort(texts.begin(), texts.end());
  for (int i = 0; i < testing::Rounds(5000); ++i)
    CheckAnyText(Mutate(texts[static_cast<size_t>(i) % texts.size()], random));
}

TEST_CASE("random tokens never crash the parser and never give a place outside the text", "[random]") {
  static const char* const kTokens[] = {
      "{",    "}",     "[",    "]",       ":",  ",",  "\"ops\"",       "\"eps\"", "1",
      "-2.5", "1e999", "true", "null",    "\n", "\r", "/*x*/",         "//y\n",   "\"é\"",
      "\"",   "\\u0",  "x",    "\"a\":1", "/*", "0",  "\"stepwatch\"", "'"};
  const unsigned seed = TestSeed();
  INFO(HowToRepeat(seed));
  std::mt19937 random(seed);
  std::uniform_int_distribution<size_t> token(0, std::size(kTokens) - 1);
  for (int i = 0; i < testing::Rounds(5000); ++i) {
    std::string text = i % 2 == 0 ? "{" : "";
    for (int n = i % 13; n > 0; --n) text += kTokens[token(random)];
    CheckAnyText(text);
  }
}

}  // namespace
}  // namespace stepwatch::config
