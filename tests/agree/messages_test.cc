#include "controller/agree/messages.h"

#include <random>

#include "tests/catch.h"

namespace stepwatch::agree {
namespace {

TEST_CASE("what is no edit reads back, and is no proposal for a release that does not know it") {
  for (const Deed deed : {Deed::kEdit, Deed::kPause, Deed::kResume, Deed::kSampling})
    for (const Mode mode : {Mode::kStrict, Mode::kBestEffort, Mode::kLocal}) {
      Proposal proposal;
      proposal.number = 3;
      proposal.at_step = 17;
      proposal.change = {mode, 0, std::string(64, 'f'), "", deed};
      const std::string text = Encode(proposal);
      const auto read = ProposalFrom(text);
      REQUIRE(read);
      CHECK(read->change.mode == mode);
      CHECK(read->change.deed == deed);
      const std::string_view way = std::string_view(text).substr(5, text.find(' ', 5) - 5);
      const bool is_of_old = way == "strict" || way == "besteffort" || way == "local";
      CHECK(is_of_old == (deed == Deed::kEdit));
    }
  CHECK_FALSE(ProposalFrom("3 17 strict-restart 0 ff -\n"));
}

TEST_CASE("the newest proposal holds questions, and is understood with and without them") {
  CHECK(LatestFrom(Encode(Latest{"0a1b", 5, "run", true, 9}))->question == 9);
  CHECK(LatestFrom("v2 0a1b 5 rings\nrun")->question == 0);
  CHECK(LatestFrom("v2 0a1b 5 rings 9 and more\nrun")->question == 9);
  CHECK_FALSE(LatestFrom("v2 0a1b 5 rings x\nrun"));
  CHECK(OtherVersion("v1 0a1b").find("rank 0 uses version v1 of the agreement, this rank v2") == 0);
  for (const char* text : {"", "v2 0a1b 5 rings\nrun", "v2 nonsense", "v", "vx 1", "over", "v12345678901 a"})
    CHECK(OtherVersion(text).empty());
}

TEST_CASE("why there was no commit is a clause for people") {
  CHECK(AbortText({false, Cause::kLate, 3, 0, "", 41}) == "rank 3 had reached step 41 before the decision");
  CHECK(AbortText({false, Cause::kLate, 0, 0, "rank 1 had not voted", 41}) ==
        "rank 0 had reached step 41 before the decision, and rank 1 had not voted");
}

TEST_CASE("what is not a message is none") {
  REQUIRE(ProposalFrom("1 2 strict 1 abc -,ff\n{}"));
  for (const char* text :
       {"", " ", "over", "1", "x 2 strict 1 abc -\n{}", "1 2 loose 1 abc -\n{}", "1 2 strict -1 abc -\n{}",
        "0 2 strict 1 abc -\n{}", "1 2 strict 1 xyz -\n{}", "1 99999999999999999999 strict 1 abc -\n{}",
        "1 2 strict 1 abc\n{}", "1 2 strict 1 abc ff,\n{}", "1 2 strict 1 abc no hex\n{}"})
    CHECK_FALSE(ProposalFrom(text));
  for (const char* text :
       {"", "commit", "commit 0 late 0 0\n", "abort 0 none 0 0\n", "abort x late 0 0\n", "maybe 0 late 0 0\n"})
    CHECK_FALSE(DecisionFrom(text));
  REQUIRE(LatestFrom("v2 abc 1 silent\nrun"));
  for (const char* text : {"", "abc", "v2 abc", "v2 abc -1 rings\nrun", "v2 nohex 1 rings\nrun", "v2  1 rings\nrun",
                           "abc 1\nrun", "v3 abc 1 rings\nrun"})
    CHECK_FALSE(LatestFrom(text));
}

TEST_CASE("of the words that ranks add to a text the newest of each counts, and a line that is no word is skipped") {
  const std::string text = WordLine(3, "ab") + WordLine(0, "cd") + WordLine(3, "ab") + WordLine(3, "ef") + "x y\n\n7\n";
  const std::map<int, std::string> expected{{0, "cd"}, {3, "ef"}};
  CHECK(WordsFrom(text) == expected);
  CHECK(WordsFrom("").empty());
}

TEST_CASE("random bytes never crash a reader") {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? "" : Encode(Decision{false, Cause::kLate, 1, 2, "why", 3});
    for (size_t n = random() % 20; n > 0; --n) {
      const char c = static_cast<char>(random() % 4 == 0 ? ' ' : random() % 256);
      if (text.empty() || random() % 2 == 0)
        text += c;
      else
        text[random() % text.size()] = c;
    }
    (void)ProposalFrom(text);
    (void)DecisionFrom(text);
    (void)LatestFrom(text);
    (void)WordsFrom(text);
  }
  CHECK(DecisionFrom("abort 1 late 2 3\nwhy"));
}

}  // namespace
}  // namespace stepwatch::agree
