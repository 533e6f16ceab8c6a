#include "src/base/text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/sha256.h"
#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("the nearest word is a likely typo or nothing") {
  const std::vector<std::string_view> words = {"collect_times", "step_interval", "ops", "eps", "format"};
  CHECK(NearestWord("collect_time", words) == "collect_times");
  CHECK(NearestWord("colelct_times", words) == "collect_times");  // neighbours swapped
  CHECK(NearestWord("stepinterval", words) == "step_interval");
  CHECK(NearestWord("formta", words) == "format");
  CHECK(NearestWord("opss", words) == "ops");
  CHECK(NearestWord("xyz", words) == "");
  CHECK(NearestWord("learning_rate", words) == "");
  CHECK(NearestWord("", words) == "");
  CHECK(NearestWord("ops", {}) == "");
  CHECK(NearestWord("ops", words) == "ops");
}

TEST_CASE("a hostile word costs nothing and has no neighbour") {
  CHECK(NearestWord(std::string(1000000, 'a'), {"aaaa"}) == "");
  CHECK(NearestWord("a", {std::string_view("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")}) == "");
}

// The distance by its definition: every way of spelling `a` as `b`, tried from the front.
size_t DistanceByDefinition(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  size_t least = DistanceByDefinition(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1);
  least = std::min(least, DistanceByDefinition(a.substr(1), b) + 1);
  least = std::min(least, DistanceByDefinition(a, b.substr(1)) + 1);
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0])
    least = std::min(least, DistanceByDefinition(a.substr(2), b.substr(2)) + 1);
  return least;
}

TEST_CASE("the nearest word is the one that the definition of the distance gives") {
  std::vector<std::string> words;
  for (const char* letters : {"", "a", "b", "ab", "ba", "abc", "acb", "bca", "aabb", "abab", "bbaa", "abcab", "bacba"})
    words.emplace_back(letters);
  const std::vector<std::string_view> candidates(words.begin() + 1, words.end());
  for (const std::string& word : words) {
    std::string_view expected;
    size_t expected_distance = 100;
    for (const std::string_view candidate : candidates) {
      const size_t distance = DistanceByDefinition(word, candidate);
      if (distance > std::max<size_t>(1, std::max(word.size(), candidate.size()) / 3)) continue;
      if (distance < expected_distance) {
        expected = candidate;
        expected_distance = distance;
      }
    }
    INFO(word);
    CHECK(NearestWord(word, candidates) == expected);
  }
}

std::vector<std::string> LayerNames(int count, const std::string& rest) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("model.layers." + std::to_string(i) + rest);
  return names;
}

TEST_CASE("a search among ten thousand names fills a small part of their distance tables") {
  const auto names = LayerNames(10000, ".self_attention.query_key_value.weight");
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string word = "model.layer.5000.self_attention.query_key_value.weight";
  SearchBudget budget;
  const size_t before = budget.entries;
  CHECK(NearestWord(word, candidates, &budget) == "model.layers.5000.self_attention.query_key_value.weight");
  CHECK(before - budget.entries < names.size() * word.size() * word.size() / 15);
}

TEST_CASE("searches that share a budget end when it is spent, with what they have") {
  const auto names = LayerNames(1000, ".weight");
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  SearchBudget budget{5000};
  CHECK(NearestWord("model.layers.999.weights", candidates, &budget) != "");
  CHECK(budget.entries == 0);
  CHECK(NearestWord("model.layers.7.weights", candidates, &budget) == "");
  CHECK(NearestWord("model.layers.7.weights", candidates) == "model.layers.7.weight");
}

TEST_CASE("what is not UTF-8 is replaced, the rest stays") {
  for (const char* good : {"", "plain", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xed\x9f\xbf \xf4\x8f\xbf\xbf"})
    CHECK(ValidUtf8(good) == good);
  const std::string mark = "\xef\xbf\xbd";
  CHECK(ValidUtf8("caf\xe9!") == "caf" + mark + "!");
  CHECK(ValidUtf8("\xe2\x82") == mark + mark);
  CHECK(ValidUtf8("\xc0\xaf") == mark + mark);                        // overlong
  CHECK(ValidUtf8("\xed\xa0\x80") == mark + mark + mark);             // a surrogate
  CHECK(ValidUtf8("\xf4\x90\x80\x80") == mark + mark + mark + mark);  // beyond U+10FFFF
}

TEST_CASE("untrusted text is printed without control characters") {
  CHECK(Printable("plain text") == "plain text");
  CHECK(Printable("a\nb\tc\x1b[31m\x7f") == "a\\x0ab\\x09c\\x1b[31m\\x7f");
  CHECK(Printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(Printable("größe") == "größe");
  CHECK(Printable("") == "");
}

TEST_CASE("a terminal gets lines, and of control characters nothing else") {
  CHECK(TerminalText("größe\n\tzwei") == "größe\n\tzwei");
  CHECK(TerminalText("\x1b]0;title\x07\r\x7f") == "\\u001b]0;title\\u0007\\u000d\\u007f");
  CHECK(TerminalText("\u009b31m \u202e\u2066") == "\\u009b31m \\u202e\\u2066");
  CHECK(TerminalText("a\x9b\xff") == "a\\x9b\\xff");
  CHECK(TerminalText(std::string_view("\0", 1)) == "\\u0000");
}

TEST_CASE("long untrusted text is cut between characters") {
  CHECK(Printable("abcdef", 6) == "abcdef");
  CHECK(Printable("abcdefg", 6) == "abcdef…");
  CHECK(Printable("abcdeäg", 6) == "abcde…");
  CHECK(Printable("äöü", 3) == "ä…");
  CHECK(Printable("ä", 0) == "…");
}

TEST_CASE("SHA-256 of known texts") {
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace stepwatch::base
