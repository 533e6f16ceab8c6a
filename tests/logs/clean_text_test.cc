#include "src/logs/clean_text.h"

#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

using namespace std::string_literals;

TEST_CASE("escape sequences and control characters go") {
  CHECK(CleanText("\x1b[31mstep: 10\x1b[0m") == "step: 10");
  CHECK(CleanText("\x1b]0;title\a"
                  "text") == "text");
  CHECK(CleanText("\0\0\0text\0"s) == "text");
  CHECK(CleanText("a\tb\x7f\b") == "a\tb");
  CHECK(CleanText("text\x1b") == "text");
  CHECK(CleanText("text\x1b[3") == "text");
}

TEST_CASE("what rsyslog escaped is decoded") {
  CHECK(CleanText("#033[32mINFO#033[0m a#011b#012c") == "INFO a\tb\nc");
  CHECK(CleanText("issue #01 and #0334") == "issue #01 and #0334");
}

TEST_CASE("bytes that are not UTF-8 are replaced") {
  CHECK(CleanText("a\xff"
                  "b") ==
        "a\xef\xbf\xbd"
        "b");
  CHECK(CleanText("梯度") == "梯度");
  CHECK_FALSE(IsClean("梯度"));
  CHECK(IsClean("step: 10\tx #1"));
}

TEST_CASE("a cut never splits a character") {
  CHECK(CutUtf8("梯度", 4) == "梯");
  CHECK(CutUtf8("abc", 3) == "abc");
}

}  // namespace
}  // namespace stepwatch::logs
