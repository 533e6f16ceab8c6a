#include "operations/log_intake/syslog_message.h"

#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/random_seed.h"

namespace stepwatch::operations {
namespace {

std::vector<std::string> TextsOf(const std::vector<SyslogFrame>& frames) {
  std::vector<std::string> texts;
  for (const SyslogFrame& frame : frames) texts.push_back(frame.text);
  return texts;
}

std::string Counted(const std::string& text) {
  return std::to_string(text.size()) + " " + text;
}

TEST_CASE("a message as the provisioned rsyslog.conf sends it has its file, host and time") {
  const SentLine line = ParseSyslog({R"(<134>1 2026-11-28T09:00:00.500000+00:00 n7 training - - [stepwatch@32473 )"
                                     R"(file="/l/a\"b\].log" offset="12"] Step 1: loss=1.5)"});
  CHECK(line.text == "Step 1: loss=1.5");
  CHECK(line.source == "/l/a\"b].log");
  CHECK(line.host == "n7");
  CHECK(line.component == "training");
  CHECK(line.t == 1795856400.5);
  CHECK(line.level == logs::Level::kUnset);
  CHECK(line.id.size() == 32);
}

TEST_CASE("a message of a program has the level of its priority, and other structured data is skipped") {
  const SentLine line =
      ParseSyslog({"<11>1 2026-11-28T09:00:00Z h app 12 ID [a@1 b=\"]\\\"\" c=\"\"][x y=\"z\"] \xef\xbb\xbf"
                   "text"});
  CHECK(line.level == logs::Level::kError);
  CHECK(line.text == "text");
  CHECK(line.source.empty());
}

TEST_CASE("the run and the rank may be structured data") {
  const SentLine line = ParseSyslog({R"(<134>1 - h training - - [stepwatch@32473 file="/l" run="r1" rank="3"] a)"});
  CHECK(line.run == "r1");
  CHECK(line.rank == 3);
  CHECK_FALSE(line.t);
}

TEST_CASE("other forms keep their text") {
  CHECK(ParseSyslog({"<34>Oct 11 22:14:15 h su: failed"}).text == "Oct 11 22:14:15 h su: failed");
  CHECK(ParseSyslog({"<34>Oct 11 22:14:15 h su: failed"}).level == logs::Level::kFatal);
  CHECK(ParseSyslog({"plain"}).text == "plain");
  CHECK(ParseSyslog({"<999>1 x"}).text == "<999>1 x");
  CHECK(ParseSyslog({"<34>1 - - - - - [a b=\"c"}).text == "1 - - - - - [a b=\"c");
  CHECK(ParseSyslog({"<34>1 - - - - - -"}).text.empty());
  CHECK(ParseSyslog({"<34>"}).text.empty());
}

TEST_CASE("both framings are read, however the stream is cut") {
  const std::string stream = Counted("<1>1 a\nb") + Counted("<2>x") + "<3>line\r\n" + Counted("<4>y\n") + "\n<5>z\n";
  const std::vector<std::string> expected = {"<1>1 a\nb", "<2>x", "<3>line", "<4>y", "<5>z"};
  std::mt19937_64 dice(test::RandomSeed());
  for (int round = 0; round < 200; ++round) {
    SyslogFramer framer;
    std::vector<SyslogFrame> frames;
    for (size_t at = 0; at < stream.size();) {
      const size_t size = std::uniform_int_distribution<size_t>(1, round < 2 ? 1 : 7)(dice);
      REQUIRE(framer.Add(std::string_view(stream).substr(at, size), &frames));
      at += size;
    }
    CHECK(TextsOf(frames) == expected);
    CHECK_FALSE(framer.is_inside());
  }
}

TEST_CASE("a longer message is cut, and the next one is whole") {
  for (const bool is_counted : {true, false}) {
    const std::string large = "<1>" + std::string(3 * kSyslogBytesMax, 'x');
    SyslogFramer framer;
    std::vector<SyslogFrame> frames;
    REQUIRE(framer.Add(is_counted ? Counted(large) : large + "\n", &frames));
    REQUIRE(framer.Add("<2>y\n", &frames));
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].is_truncated);
    CHECK(frames[0].text.size() == kSyslogBytesMax);
    CHECK_FALSE(frames[1].is_truncated);
    CHECK(framer.size() == 0);
  }
}

TEST_CASE("a length that is none, or is absurd, ends the stream") {
  for (const char* wrong : {"12x", "1234567890 <1>a", "1\n"}) {
    SyslogFramer framer;
    std::vector<SyslogFrame> frames;
    CHECK_FALSE(framer.Add(wrong, &frames));
    CHECK(frames.empty());
  }
}

TEST_CASE("the last line of a stream may lack its end, a counted message may not") {
  SyslogFramer line, counted;
  std::vector<SyslogFrame> frames;
  REQUIRE(line.Add("<1>a", &frames));
  CHECK(line.Finish(&frames));
  CHECK(frames.size() == 1);
  REQUIRE(counted.Add("9 <1>a", &frames));
  CHECK_FALSE(counted.Finish(&frames));
  CHECK(frames.size() == 1);
}

}  // namespace
}  // namespace stepwatch::operations
