#include "operations/logs/split_lines.h"

#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

std::vector<std::string> TextsOf(const SplitLines& split) {
  std::vector<std::string> texts;
  for (const SplitLine& each : split.lines) texts.emplace_back(each.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("only whole lines are taken from a piece of a file") {
  const SplitLines split = SplitIntoLines("one\ntwo\r\n\nthr", {});
  CHECK(TextsOf(split) == Texts{"one", "two", ""});
  CHECK(split.consumed == 10);
  CHECK(split.lines[1].begin == 4);
  CHECK(split.lines[1].end == 9);
  SplitOptions all;
  all.is_all = true;
  CHECK(TextsOf(SplitIntoLines("one\nthr", all)) == Texts{"one", "thr"});
}

TEST_CASE("the states of a progress bar are lines, and its blank ones are not") {
  const SplitLines split = SplitIntoLines("\r 10%\r 20%\r\r 30%\n 40%\r", {});
  CHECK(TextsOf(split) == Texts{" 10%", " 20%", " 30%"});
  // A line feed may follow the last carriage return.
  CHECK(split.consumed == 17);
  CHECK(TextsOf(SplitIntoLines(" 40%\r\n", {})) == Texts{" 40%"});
}

TEST_CASE("NUL bytes before a line are skipped") {
  const std::string nuls(5000, '\0');
  const std::string bytes = nuls + "after\n" + std::string("\0x", 2);  // outlives the lines
  const SplitLines split = SplitIntoLines(bytes, {});
  CHECK(TextsOf(split) == Texts{"after"});
  CHECK(split.lines[0].begin == nuls.size());
  CHECK(split.consumed == nuls.size() + 7);
  CHECK(SplitIntoLines(nuls, {}).consumed == nuls.size());
}

TEST_CASE("a line that is too long is cut once, and the next one is whole") {
  SplitOptions options;
  options.line_bytes_max = 4;
  SplitLines split = SplitIntoLines("abcd\nabcdefgh", options);
  CHECK(TextsOf(split) == Texts{"abcd", "abcd"});
  CHECK_FALSE(split.lines[0].is_truncated);
  CHECK(split.lines[1].is_truncated);
  CHECK(split.is_inside);
  CHECK(split.consumed == 13);
  options.is_inside = true;
  split = SplitIntoLines("ij\r\nnext\n", options);
  CHECK(TextsOf(split) == Texts{"next"});
  CHECK_FALSE(split.is_inside);
  split = SplitIntoLines("still\r", options);
  CHECK(split.consumed == 5);
  CHECK(split.is_inside);
}

TEST_CASE("any division of a file leads to the same lines") {
  const std::string bytes = "a\r\nbb\r10%\r\r20%\r\n\n" + std::string(3, '\0') + "ccc\nlonger than the rest\rd\n\r\n";
  SplitOptions options;
  options.line_bytes_max = 8;
  const Texts whole = TextsOf(SplitIntoLines(bytes, options));
  for (size_t first = 0; first <= bytes.size(); ++first) {
    const SplitLines begin = SplitIntoLines(std::string_view(bytes).substr(0, first), options);
    SplitOptions rest = options;
    rest.is_inside = begin.is_inside;
    Texts texts = TextsOf(begin);
    for (const std::string& each : TextsOf(SplitIntoLines(std::string_view(bytes).substr(begin.consumed), rest)))
      texts.push_back(each);
    CHECK(texts == whole);
  }
}

}  // namespace
}  // namespace stepwatch::operations
