// What the ranks of a job write into the store: a proposal, votes for it, and its decision. All are short texts.
//
// The leader publishes a proposal, every rank votes for it, and whoever is first sets its decision: a key that can be
// set once. All texts are read as untrusted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/record_layout.h"

namespace stepwatch::agree {

// How the ranks choose the step at which they apply an edit.
enum class Mode : uint8_t {
  kStrict,      // all at the same step, or none
  kBestEffort,  // at an announced step; a rank that hears of it too late follows at its next boundary
  kLocal,       // each at its own next boundary
};

// What the ranks are to do at the step.
enum class Deed : uint8_t {
  kEdit,      // to do what the bytes ask for
  kPause,     // to collect nothing, and keep window and count
  kResume,    // to collect again
  kSampling,  // to go on with the window, and collect more or less of it
};

// What the leader wants applied.
struct Change {
  Mode mode = Mode::kStrict;
  PlanId plan_id = 0;  // kEdit, kSampling; 0: it ends the collection
  std::string sha256;  // of the config; unless kEdit, that of the plan in force
  std::string bytes;   // kEdit: of the config; kSampling: what is collected from then on
  Deed deed = Deed::kEdit;
};

// A process that takes a rank's part: hex digits that it draws when it starts. A rank that restarts in place finds the
// keys of the process before it, and must neither obey what was meant for that one nor be taken for it.
using Incarnation = std::string;

struct Proposal {
  int64_t number = 0;  // from 1, by the leader
  int64_t at_step = 0;
  Change change;
  std::vector<Incarnation> roll;  // by rank: for whom it is meant; empty: that rank had not come
};

bool IsIncarnation(std::string_view text_untrusted);
// The one that the proposal is meant for on this rank; empty: none.
Incarnation MeantFor(const Proposal& proposal, int rank);

enum class Cause : uint8_t {
  kNone,        // a commit
  kLate,        // a rank reached the step before the decision
  kSilent,      // ranks did not vote in time
  kSuperseded,  // a newer edit came
  kCannot,      // a rank cannot do it
  kRenumber,    // a rank has used the plan's number for a plan of its own (its model has grown)
  kNewcomer,    // a rank has come, or come again, since it was proposed
};

struct Decision {
  bool commit = false;
  Cause cause = Cause::kNone;
  int rank = 0;             // who decided
  PlanId next_plan_id = 0;  // kRenumber: the first number that this rank has free
  std::string reason;       // for people
  int64_t step = 0;         // kLate: the one that the rank has reached
};

// The newest proposal of the leader's session; 0: none yet. A leader that starts has a new session. A rank that reads
// another version of the format than its own hears of no leader.
struct Latest {
  Incarnation session;  // the leader's own
  int64_t number = 0;
  std::string run_id;
  bool rings = false;  // the leader rings the bell of every rank when there is something new
  int64_t asked = 0;   // the number of the newest question to all ranks; 0: none was asked
};

std::string Encode(const Proposal& proposal);
std::string Encode(const Decision& decision);
std::string Encode(const Latest& latest);
std::optional<Proposal> ProposalFrom(std::string_view text_untrusted);
std::optional<Decision> DecisionFrom(std::string_view text_untrusted);
std::optional<Latest> LatestFrom(std::string_view text_untrusted);
// Why a text that stands for Latest is none, if it is one of another version of the format; otherwise empty.
std::string OtherVersion(std::string_view latest_untrusted);

// Words that the ranks add to one text, a line for each. The newest word of a rank counts; a line that is there twice
// means the same as once.
std::string WordLine(int rank, std::string_view word);
std::map<int, std::string> WordsFrom(std::string_view text_untrusted);

// "rank 3 had reached step 41 before the decision": why there was no commit.
std::string AbortText(const Decision& decision);

}  // namespace stepwatch::agree
