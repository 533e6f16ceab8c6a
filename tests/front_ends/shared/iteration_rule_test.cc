#include "front_ends/shared/iteration_rule.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/random_seed.h"

namespace stepwatch::front_end {
namespace {

// A rule with optimizers a, b, c ..., which updates by their letters; '|' marks where iterations end.
class Loop {
 public:
  explicit Loop(int members) {
    for (int i = 0; i < members; ++i) rule.Add();
  }

  std::string Run(const std::string& updates) {
    std::string text;
    for (const char letter : updates) {
      text += letter;
      if (rule.Updated(static_cast<IterationRule::Member>(letter - 'a'))) text += '|';
      for (const IterationRule::Member member : rule.TakeLeftOut()) left_out += static_cast<char>('a' + member);
    }
    return text;
  }

  IterationRule rule;
  std::string left_out;  // each at its first time
};

std::string Times(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_CASE("each update of one optimizer ends an iteration") {
  CHECK(Loop(1).Run("aaaa") == "a|a|a|a|");
}

TEST_CASE("an iteration ends when each optimizer has updated, whatever the order") {
  CHECK(Loop(2).Run("abab") == "ab|ab|");
  CHECK(Loop(2).Run("baba") == "ba|ba|");
  CHECK(Loop(3).Run("cabbca") == "cab|bca|");
}

TEST_CASE("every order of up to three optimizers ends iterations with the last one that is missing, and no others") {
  for (int members = 1; members <= 3; ++members) {
    int orders = 1;
    for (int i = 0; i < 9; ++i) orders *= members;
    for (int order = 0; order < orders; ++order) {
      Loop loop(members);
      std::vector<int> updates(static_cast<size_t>(members), 0);
      for (int i = 0, rest = order; i < 9; ++i, rest /= members) {
        const int member = rest % members;
        ++updates[static_cast<size_t>(member)];
        bool all = true, out = false;
        for (const int count : updates) {
          all = all && count > 0;
          out = out || count >= 8;
        }
        const bool ends_iteration = loop.rule.Updated(static_cast<IterationRule::Member>(member));
        if (out && !all) break;  // others are left out here
        REQUIRE(ends_iteration == all);
        REQUIRE(loop.rule.TakeLeftOut().empty());
        if (all) updates.assign(updates.size(), 0);
      }
    }
  }
}

TEST_CASE("one that updates several times in an iteration does not end it") {
  CHECK(Loop(2).Run(Times(3, "aaab")) == Times(3, "aaab|"));
  CHECK(Loop(3).Run(Times(2, "abababc")) == Times(2, "abababc|"));
}

TEST_CASE("a loop that begins with the rare one has as many iterations, from its second on") {
  CHECK(Loop(2).Run(Times(4, "abbb")) == "ab|bba|bbba|bbba|bbb");
}

TEST_CASE("one that sits out is left out when another one updates for the eighth time, and is listed once") {
  Loop loop(2);
  CHECK(loop.Run("ab" + Times(12, "a")) == "ab|aaaaaaaa|a|a|a|a|");
  CHECK(loop.left_out == "b");
  loop.Run("ab" + Times(40, "a"));
  CHECK(loop.left_out == "b");
}

TEST_CASE("one that comes back takes part in the iteration of its own loop") {
  SECTION("as the last one of it") {
    Loop loop(2);
    loop.Run("ab" + Times(10, "a"));
    CHECK(loop.Run("ababab") == "a|bab|ab|");
  }
  SECTION("as the first one of it") {
    Loop loop(2);
    loop.Run("ba" + Times(10, "a"));
    CHECK(loop.Run("bababa") == "ba|ba|ba|");
  }
  SECTION("in the midst of it") {
    Loop loop(3);
    loop.Run("abc" + Times(10, "ac"));
    CHECK(loop.Run("abcabc") == "abc|abc|");
  }
  SECTION("for the first time, where it was added as the last one") {
    Loop loop(2);
    loop.Run(Times(10, "a"));
    CHECK(loop.Run("abab") == "a|bab|");
  }
}

TEST_CASE("one that is always late is waited for from the third time on") {
  Loop loop(2);
  CHECK(loop.Run(Times(20, "a") + "b" + Times(20, "a") + "b").size() > 42);
  const std::string late = Times(20, "a") + "b";
  loop.Run(late);
  const std::string text = loop.Run(late + late + late);
  CHECK(std::count(text.begin(), text.end(), '|') == 3);
}

TEST_CASE("a long phase without one does not make the rule wait long in the next") {
  Loop loop(2);
  const std::string phases = Times(500, "a") + Times(20, "ab");
  loop.Run(phases);
  const std::string text = loop.Run(Times(500, "a"));
  CHECK(std::count(text.begin(), text.end(), '|') >= 490);
}

TEST_CASE("optimizers of the same parameters take turns") {
  Loop loop(2);
  loop.rule.SetTakesTurns(0, true);
  loop.rule.SetTakesTurns(1, true);
  CHECK(loop.Run("aaaaabbbbb") == "aa|a|a|a|bb|b|b|b|");
  CHECK(loop.left_out == "ba");
}

TEST_CASE("one that is removed is not waited for") {
  Loop loop(3);
  loop.Run("abc");
  loop.rule.Remove(1);
  CHECK(loop.Run("acac") == "ac|ac|");
  CHECK(loop.left_out.empty());
}

TEST_CASE("one that the front end leaves out is waited for again when it has updated, and is not listed") {
  Loop loop(2);
  loop.Run("ab");
  loop.rule.LeaveOut(0);
  CHECK(loop.Run("bbbab") == "b|b|b|ab|");
  CHECK(loop.Run("abab") == "ab|ab|");
  CHECK(loop.left_out.empty());
}

TEST_CASE("one that is added later takes part from then on") {
  Loop loop(1);
  loop.Run("aaa");
  loop.rule.Add();
  CHECK(loop.Run("abab") == "ab|ab|");
}

TEST_CASE("the one that the program names ends iterations alone") {
  Loop loop(3);
  loop.rule.NameClock(1);
  CHECK(loop.Run("abcbacab") == "ab|cb|acab|");
  CHECK(loop.left_out.empty());
}

TEST_CASE("without the one that was named the rule holds") {
  Loop loop(3);
  loop.rule.NameClock(1);
  loop.rule.Remove(1);
  CHECK(loop.Run("acac") == "ac|ac|");
}

TEST_CASE("a program that ends iterations itself ends none twice") {
  SECTION("if it has said so before") {
    Loop loop(1);
    loop.rule.LeaveToProgram();
    CHECK(loop.Run("aa") == "aa");
    CHECK(loop.rule.EndByHand());
    CHECK(loop.Run("a") == "a");
    CHECK(loop.rule.EndByHand());
  }
  SECTION("if its first call comes after the update that has ended the iteration") {
    Loop loop(2);
    CHECK(loop.Run("ab") == "ab|");
    CHECK_FALSE(loop.rule.EndByHand());
    CHECK(loop.Run("ab") == "ab");
    CHECK(loop.rule.EndByHand());
    CHECK(loop.rule.EndByHand());
  }
  SECTION("if there is no optimizer") {
    Loop loop(0);
    CHECK(loop.rule.EndByHand());
    CHECK(loop.rule.EndByHand());
  }
}

TEST_CASE("whatever updates, no optimizer updates often in one iteration, and none is waited for in vain",
          "[random][slow]") {
  std::mt19937_64 random(test::RandomSeed());
  for (int world = 0; world < 400; ++world) {
    const int members = 1 + static_cast<int>(random() % 4);
    Loop loop(members);
    std::vector<int> updates(static_cast<size_t>(members), 0);
    uint64_t busy = random();  // bits: who updates in this phase
    for (int i = 0; i < 2000; ++i) {
      if (random() % 100 == 0) busy = random();
      const auto member = static_cast<size_t>(random() % static_cast<uint64_t>(members));
      if ((busy >> member & 1) == 0) continue;
      ++updates[member];
      const bool ends_iteration = loop.rule.Updated(static_cast<IterationRule::Member>(member));
      REQUIRE((members > 1 || ends_iteration));
      // Twice the usual absence, which no phase makes longer than the one before.
      REQUIRE(updates[member] <= 1000);
      if (ends_iteration) updates.assign(updates.size(), 0);
    }
    // A phase of one optimizer alone: it ends iterations by itself soon.
    int ended = 0;
    for (int i = 0; i < 4000; ++i) ended += loop.rule.Updated(0);
    REQUIRE(ended >= 2000);
  }
}

}  // namespace
}  // namespace stepwatch::front_end
