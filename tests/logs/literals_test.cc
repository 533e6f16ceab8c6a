#include "src/logs/literals.h"

#include <algorithm>
#include <string>

#include "src/logs/anomaly_patterns.h"
#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

TEST_CASE("a word is found anywhere and in both cases") {
  const Literals words({"out of memory", "NVRM: Xid"});
  for (const char* text : {"out of memory", "CUDA Out Of Memory!", "nvrm: xid (PCI", "x out of memory"})
    CHECK(words.AnyIn(text));
  for (const char* text : {"", "out", "out of memor", "ut of memory", "NVRM; Xid"}) CHECK(!words.AnyIn(text));
}

TEST_CASE("a word that must end is not the beginning of another") {
  const Literals words({" nan$"});
  for (const char* text : {"loss nan", "loss NaN, lr", "a nano nan"}) CHECK(words.AnyIn(text));
  for (const char* text : {"loss nano", "x nan0"}) CHECK(!words.AnyIn(text));
}

TEST_CASE("a word is found unless the excluded text follows") {
  const Literals words({" nan~ iterations"});
  for (const char* text : {"loss nan", "loss nan iteration", "of nan iterations, loss nan"}) CHECK(words.AnyIn(text));
  CHECK(!words.AnyIn("number of nan iterations: 0"));
}

TEST_CASE("words with the same four bytes are all found") {
  const Literals words({"xqzj one", "xqzj two"});
  CHECK(words.AnyIn("xqzj two"));
  CHECK(words.AnyIn("xqzj one"));
  CHECK(!words.AnyIn("xqzj three"));
}

TEST_CASE("every pattern that finds has words, and no word is too short") {
  for (const Pattern& pattern : AnomalyPatterns()) {
    if (pattern.effect == Effect::kCancels || pattern.effect == Effect::kSoftens) continue;
    CAPTURE(std::string(pattern.regex));
    CHECK(!pattern.literals.empty());
    std::string words(pattern.literals);
    for (size_t begin = 0; begin <= words.size();) {
      const size_t end = std::min(words.find('|', begin), words.size());
      std::string word = words.substr(begin, end - begin);
      if (word.ends_with('$')) word.pop_back();
      word.resize(std::min(word.find('~'), word.size()));
      CHECK(word.size() >= Literals::kLengthMin);
      begin = end + 1;
    }
  }
}

}  // namespace
}  // namespace stepwatch::logs
