#include "controller/watch/settle.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::watch {
namespace {

using std::chrono::milliseconds;

// One look of a story: at this time it saw this; afterwards the verdict is expected to be this.
struct Scene {
  enum class Expect { kNothing, kPass, kLookAt };
  int at_ms;
  // "A", "B", ...: bytes of a whole config; "{A": half-written; "-": missing; "x": a directory; "?": unstable.
  std::string saw;
  Expect expect;
  int look_at_ms = -1;
  int touched = 0;  // another number: another stamp
  bool impatient = false;
};

constexpr auto kNothing = Scene::Expect::kNothing;
constexpr auto kPass = Scene::Expect::kPass;
constexpr auto kLookAt = Scene::Expect::kLookAt;

Look LookOf(const Scene& scene) {
  Look look;
  if (scene.saw == "-") return look;
  if (scene.saw == "?" || scene.saw == "x") {
    look.kind = scene.saw == "?" ? LookKind::kUnstable : LookKind::kUnreadable;
    look.error_number = scene.saw == "?" ? 0 : EISDIR;
    return look;
  }
  look.kind = LookKind::kBytes;
  look.bytes = scene.saw;
  look.sha256 = "hash of " + scene.saw;
  look.stamp.changed_ns = scene.touched;
  return look;
}

Settle::Time At(int ms) {
  return Settle::Time() + milliseconds(ms);
}

void Play(Settle& settle, const std::vector<Scene>& story) {
  for (const Scene& scene : story) {
    INFO("at " << scene.at_ms << " ms the look saw " << scene.saw);
    const Look look = LookOf(scene);
    const Settle::Verdict verdict =
        scene.impatient ? settle.OnImpatientLook(look, At(scene.at_ms)) : settle.OnLook(look, At(scene.at_ms));
    CHECK(verdict.pass_on == (scene.expect == kPass));
    REQUIRE(verdict.look_at.has_value() == (scene.expect == kLookAt));
    if (verdict.look_at) CHECK(*verdict.look_at == At(scene.look_at_ms));
  }
}

Settle Fresh() {
  return Settle(SettleTimes{}, [](const std::string& bytes) { return bytes.front() != '{'; });
}

// Has passed on "A" at time 0.
Settle AfterA() {
  Settle settle = Fresh();
  Play(settle, {{0, "A", kPass, -1, 0, true}});
  return settle;
}

}  // namespace

TEST_CASE("bytes are passed on when two looks a quiet time apart saw the same") {
  Settle settle = Fresh();
  Play(settle, {{0, "A", kLookAt, 100},
                {50, "A", kLookAt, 100},
                {99, "A", kLookAt, 100},
                {100, "A", kPass},
                {110, "A", kNothing},
                {1100, "A", kNothing}});
}

TEST_CASE("every change begins the rest anew") {
  Settle settle = Fresh();
  Play(settle, {{0, "A", kLookAt, 100}, {90, "B", kLookAt, 190}, {100, "B", kLookAt, 190}, {190, "B", kPass}});
}

TEST_CASE("a late look passes on what it sees a second time") {
  Settle settle = Fresh();
  Play(settle, {{0, "A", kLookAt, 100}, {1000, "A", kPass}});
}

TEST_CASE("an edit taken back within the quiet time is no change") {
  Settle settle = AfterA();
  Play(settle, {{10, "B", kLookAt, 110}, {60, "A", kNothing}, {110, "A", kNothing}, {120, "B", kLookAt, 220}});
}

TEST_CASE("a file deleted and written again within the quiet time was never gone") {
  Settle settle = AfterA();
  Play(settle, {{10, "-", kLookAt, 110}, {100, "A", kNothing}, {200, "A", kNothing}});
}

TEST_CASE("a file that stays away is passed on as missing, and its old bytes again when they are back") {
  Settle settle = AfterA();
  Play(settle, {{10, "-", kLookAt, 110},
                {110, "-", kPass},
                {1000, "-", kNothing},
                {2000, "A", kLookAt, 2100},
                {2100, "A", kPass}});
}

TEST_CASE("an unreadable file rests as well, and missing is something else") {
  Settle settle = AfterA();
  Play(settle, {{10, "x", kLookAt, 110}, {100, "-", kLookAt, 200}, {110, "x", kLookAt, 210}, {210, "x", kPass}});
  Play(settle, {{300, "x", kNothing}, {400, "-", kLookAt, 500}, {500, "-", kPass}});
}

TEST_CASE("half-written bytes wait for the half-written time") {
  Settle settle = AfterA();
  Play(settle, {{0, "{B", kLookAt, 500}, {100, "{B", kLookAt, 500}, {499, "{B", kLookAt, 500}, {500, "{B", kPass}});
}

TEST_CASE("the second half of an in-place save hides the first") {
  Settle settle = AfterA();
  Play(settle, {{0, "{B", kLookAt, 500}, {300, "B", kLookAt, 400}, {400, "B", kPass}});
}

TEST_CASE("a look that met a writer is repeated soon and begins the rest anew") {
  Settle settle = AfterA();
  Play(settle, {{0, "B", kLookAt, 100}, {90, "?", kLookAt, 100}, {100, "B", kLookAt, 200}, {200, "B", kPass}});
}

TEST_CASE("equal bytes from a file that was touched in between rest again") {
  Settle settle = AfterA();
  Play(settle, {{0, "B", kLookAt, 100}, {100, "B", kLookAt, 200, 1}, {200, "B", kPass, -1, 1}});
}

TEST_CASE("a program that touches the file without end cannot hold an edit back for longer than rest_max") {
  Settle settle = AfterA();
  std::vector<Scene> story;
  for (int ms = 0; ms < 1000; ms += 50) story.push_back({ms, "B", kLookAt, std::min(ms + 100, 1000), ms});
  story.push_back({1000, "B", kPass, -1, 1000});
  Play(settle, story);
}

TEST_CASE("an impatient look passes a stable change on at once, whole or not") {
  Settle settle = AfterA();
  Play(settle, {{0, "A", kNothing, -1, 0, true},
                {1, "B", kPass, -1, 0, true},
                {2, "{C", kPass, -1, 0, true},
                {3, "-", kPass, -1, 0, true},
                {4, "?", kLookAt, 14, 0, true}});
}

TEST_CASE("an impatient look takes what was pending with it") {
  Settle settle = AfterA();
  Play(settle, {{0, "B", kLookAt, 100}, {10, "B", kPass, -1, 0, true}, {100, "B", kNothing}});
  Play(settle, {{200, "C", kLookAt, 300}, {210, "B", kNothing, -1, 0, true}, {220, "C", kLookAt, 320}});
}

TEST_CASE("bytes set as known are no change, the bytes before them are one") {
  Settle settle = AfterA();
  settle.SetKnown("hash of B");
  Play(settle, {{0, "B", kNothing}, {10, "A", kLookAt, 110}, {110, "A", kPass}});
}

TEST_CASE("bytes set as known while they rest are not passed on") {
  Settle settle = AfterA();
  Play(settle, {{0, "B", kLookAt, 100}});
  settle.SetKnown("hash of B");
  Play(settle, {{100, "B", kNothing}});
}

TEST_CASE("without a question every text counts as whole") {
  Settle settle(SettleTimes{}, nullptr);
  Play(settle, {{0, "{A", kLookAt, 100}, {100, "{A", kPass}});
}

}  // namespace stepwatch::watch
