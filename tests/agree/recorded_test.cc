// The messages of this version, as every build of it has written them: bytes that later builds must still read, and
// write. A change that another build would not read needs a new version, and for records of its own.
#include <filesystem>

#include "controller/agree/messages.h"
#include "tests/catch.h"
#include "tests/recorded_message.h"
#include "tests/temporary_directory.h"

namespace stepwatch::agree {
namespace {

namespace fs = std::filesystem;
using testing::CheckRecorded;
using testing::RecordedMessage;

const std::string kRecorded = STEPWATCH_SOURCE_DIR "/tests/agree/recorded";

std::string FirstWord(const std::string& text) {
  return text.substr(0, text.find(' '));
}

// The versions of this build.
std::string AgreementVersion() {
  return FirstWord(Encode(Latest{"0a", 1, "run"}));
}

TEST_CASE("proposals and decisions are what they were in every build of this version") {
  const std::string version = AgreementVersion();
  const auto latest = [&](const char* name, const Latest& message) {
    CheckRecorded(kRecorded, version, name, message, LatestFrom);
  };
  latest("latest_first", {"0a1b2c3d", 0, "run-of-monday", false, 0});
  latest("latest_rings", {"0a1b2c3d", 5, "run-of-monday", true, 9});

  const auto proposal = [&](const char* name, const Proposal& message) {
    CheckRecorded(kRecorded, version, name, message, ProposalFrom);
  };
  proposal("proposal_strict", {1,
                               40,
                               {Mode::kStrict, 1, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                                "{\n  \"dynamic_on\": true, // the second line\n  \"ops\": [\"norm\"]\n}\n"},
                               {"0a1b2c3d", "ff00aa11"}});
  proposal("proposal_besteffort",
           {12, 4611686018427387904, {Mode::kBestEffort, 4294967295, "abc", "{}"}, {"0a1b2c3d", "", "ff"}});
  proposal("proposal_stop", {2, 41, {Mode::kLocal, 0, "abc", "{\"dynamic_on\": false}"}, {""}});

  proposal("proposal_sampling",
           {13, 42, {Mode::kStrict, 7, "abc", "2 lower 20 actv 3 1.5 grad_reduced\n", Deed::kSampling}, {"0a1b2c3d"}});

  const auto decision = [&](const char* name, const Decision& message) {
    CheckRecorded(kRecorded, version, name, message, DecisionFrom);
  };
  decision("decision_commit", {true, Cause::kNone, 0, 0, "", 0});
  decision("decision_late", {false, Cause::kLate, 3, 0, "rank 1 had not voted", 41});
  decision("decision_silent", {false, Cause::kSilent, 0, 0, "ranks 1 and 2 did not vote within 30 s", 0});
  decision("decision_superseded", {false, Cause::kSuperseded, 0, 0, "", 0});
  decision("decision_cannot", {false, Cause::kCannot, 2, 0, "line 3, column 5, \"ops\": \u00e9\nand a second line", 0});
  decision("decision_renumber", {false, Cause::kRenumber, 1, 9, "", 0});
  decision("decision_newcomer", {false, Cause::kNewcomer, 1, 0, "", 0});
}

TEST_CASE("votes are what they were in every build of this version") {
  const std::string recorded = RecordedMessage(kRecorded, AgreementVersion(), "votes");
  CHECK(recorded == WordLine(0, "0a1b2c3d") + WordLine(1, "ff00aa11") + WordLine(1, "ff00aa12"));
  CHECK(WordsFrom(recorded) == std::map<int, std::string>{{0, "0a1b2c3d"}, {1, "ff00aa12"}});
}

TEST_CASE("messages of another version are refused with one sentence that names both") {
  for (const fs::directory_entry& other : fs::directory_iterator(kRecorded)) {
    const std::string latest = other.path() / "latest";
    if (!fs::exists(latest)) continue;
    const std::string text = testing::Contents(latest);
    INFO(text);
    CHECK_FALSE(LatestFrom(text));
    CHECK(OtherVersion(text) == "rank 0 uses version " + FirstWord(text) + " of the agreement, this rank " +
                                    AgreementVersion() + ": all ranks of a job must run the same release of Stepwatch");
  }
}

}  // namespace
}  // namespace stepwatch::agree
