#include "controller/watch/debouncer.h"

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

FileSnapshot LookOf(const Scene& scene) {
  FileSnapshot snapshot;
  if (scene.saw == "-") return snapshot;
  if (scene.saw == "?" || scene.saw == "x") {
    snapshot.kind = scene.saw == "?" ? SnapshotKind::kUnstable : SnapshotKind::kUnreadable;
    snapshot.error_number = scene.saw == "?" ? 0 : EISDIR;
    return snapshot;
  }
  snapshot.kind = SnapshotKind::kBytes;
  snapshot.bytes = scene.saw;
  snapshot.sha256 = "hash of " + scene.saw;
  snapshot.stamp.changed_ns = scene.touched;
  return snapshot;
}

Debouncer::Time At(int ms) {
  return Debouncer::Time() + milliseconds(ms);
}

void Play(Debouncer& debouncer, const std::vector<Scene>& story) {
  for (const Scene& scene : story) {
    INFO("at " << scene.at_ms << " ms the look saw " << scene.saw);
    const FileSnapshot snapshot = LookOf(scene);
    const Debouncer::SettleDecision verdict = scene.impatient ? debouncer.OnImpatientLook(snapshot, At(scene.at_ms))
                                                              : debouncer.OnLook(snapshot, At(scene.at_ms));
    CHECK(verdict.pass_on == (scene.expect == kPass));
    REQUIRE(verdict.look_at.has_value() == (scene.expect == kLookAt));
    if (verdict.look_at) CHECK(*verdict.look_at == At(scene.look_at_ms));
  }
}

Debouncer Fresh() {
  return Debouncer(SettleTimes{}, [](const std::string& bytes) { return bytes.front() != '{'; });
}

// Has passed on "A" at time 0.
Debouncer AfterA() {
  Debouncer debouncer = Fresh();
  Play(debouncer, {{0, "A", kPass, -1, 0, true}});
  return debouncer;
}

}  // namespace

TEST_CASE("bytes are passed on when two looks a quiet time apart saw the same") {
  Debouncer debouncer = Fresh();
  Play(debouncer, {{0, "A", kLookAt, 100},
                   {50, "A", kLookAt, 100},
                   {99, "A", kLookAt, 100},
                   {100, "A", kPass},
                   {110, "A", kNothing},
                   {1100, "A", kNothing}});
}

TEST_CASE("every change begins the rest anew") {
  Debouncer debouncer = Fresh();
  Play(debouncer, {{0, "A", kLookAt, 100}, {90, "B", kLookAt, 190}, {100, "B", kLookAt, 190}, {190, "B", kPass}});
}

TEST_CASE("a late look passes on what it sees a second time") {
  Debouncer debouncer = Fresh();
  Play(debouncer, {{0, "A", kLookAt, 100}, {1000, "A", kPass}});
}

TEST_CASE("an edit taken back within the quiet time is no change") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{10, "B", kLookAt, 110}, {60, "A", kNothing}, {110, "A", kNothing}, {120, "B", kLookAt, 220}});
}

TEST_CASE("a file deleted and written again within the quiet time was never gone") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{10, "-", kLookAt, 110}, {100, "A", kNothing}, {200, "A", kNothing}});
}

TEST_CASE("a file that stays away is passed on as missing, and its old bytes again when they are back") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{10, "-", kLookAt, 110},
                   {110, "-", kPass},
                   {1000, "-", kNothing},
                   {2000, "A", kLookAt, 2100},
                   {2100, "A", kPass}});
}

TEST_CASE("an unreadable file rests as well, and missing is something else") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{10, "x", kLookAt, 110}, {100, "-", kLookAt, 200}, {110, "x", kLookAt, 210}, {210, "x", kPass}});
  Play(debouncer, {{300, "x", kNothing}, {400, "-", kLookAt, 500}, {500, "-", kPass}});
}

TEST_CASE("half-written bytes wait for the half-written time") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "{B", kLookAt, 500}, {100, "{B", kLookAt, 500}, {499, "{B", kLookAt, 500}, {500, "{B", kPass}});
}

TEST_CASE("the second half of an in-place save hides the first") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "{B", kLookAt, 500}, {300, "B", kLookAt, 400}, {400, "B", kPass}});
}

TEST_CASE("a look that met a writer is repeated soon and begins the rest anew") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "B", kLookAt, 100}, {90, "?", kLookAt, 100}, {100, "B", kLookAt, 200}, {200, "B", kPass}});
}

TEST_CASE("equal bytes from a file that was touched in between rest again") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "B", kLookAt, 100}, {100, "B", kLookAt, 200, 1}, {200, "B", kPass, -1, 1}});
}

TEST_CASE("a program that touches the file without end cannot hold an edit back for longer than rest_max") {
  Debouncer debouncer = AfterA();
  std::vector<Scene> story;
  for (int ms = 0; ms < 1000; ms += 50) story.push_back({ms, "B", kLookAt, std::min(ms + 100, 1000), ms});
  story.push_back({1000, "B", kPass, -1, 1000});
  Play(debouncer, story);
}

TEST_CASE("an impatient look passes a stable change on at once, whole or not") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "A", kNothing, -1, 0, true},
                   {1, "B", kPass, -1, 0, true},
                   {2, "{C", kPass, -1, 0, true},
                   {3, "-", kPass, -1, 0, true},
                   {4, "?", kLookAt, 14, 0, true}});
}

TEST_CASE("an impatient look takes what was pending with it") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "B", kLookAt, 100}, {10, "B", kPass, -1, 0, true}, {100, "B", kNothing}});
  Play(debouncer, {{200, "C", kLookAt, 300}, {210, "B", kNothing, -1, 0, true}, {220, "C", kLookAt, 320}});
}

TEST_CASE("bytes set as known are no change, the bytes before them are one") {
  Debouncer debouncer = AfterA();
  debouncer.SetKnown("hash of B");
  Play(debouncer, {{0, "B", kNothing}, {10, "A", kLookAt, 110}, {110, "A", kPass}});
}

TEST_CASE("bytes set as known while they rest are not passed on") {
  Debouncer debouncer = AfterA();
  Play(debouncer, {{0, "B", kLookAt, 100}});
  debouncer.SetKnown("hash of B");
  Play(debouncer, {{100, "B", kNothing}});
}

TEST_CASE("without a question every text counts as whole") {
  Debouncer debouncer(SettleTimes{}, nullptr);
  Play(debouncer, {{0, "{A", kLookAt, 100}, {100, "{A", kPass}});
}

}  // namespace stepwatch::watch
