// Messages that the ranks of a job write into the store: a proposal, votes for it, and its decision. All are short
// texts.
// The leader publishes a proposal, every rank votes for it, and the first rank to set its decision wins: that key can
// be set once. All texts are untrusted.
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
  kStrict,      // all at the same step, or no rank at all
  kBestEffort,  // at an announced step; a rank that learns of it too late follows at its next boundary
  kLocal,       // each at its own next boundary
};

// The action of the ranks at the step.
enum class Deed : uint8_t {
  kEdit,      // apply the config
  kPause,     // stop collecting; keep window and count
  kResume,    // collect again
  kSampling,  // continue the window with more or less collected
};

// The change that the leader proposes.
struct Change {
  Mode mode = Mode::kStrict;
  PlanId plan_id = 0;  // kEdit, kSampling; 0: the change ends the collection
  std::string sha256;  // of the config; unless kEdit, the config of the plan in force
  std::string bytes;   // kEdit: the config; kSampling: the new sampling
  Deed deed = Deed::kEdit;
};

// Identifies the process of a rank: hex digits drawn at its start. A rank that restarts in place finds the keys of its
// predecessor; it must neither obey messages for that process nor be mistaken for it.
using Incarnation = std::string;

struct Proposal {
  int64_t number = 0;  // from 1, assigned by the leader
  int64_t at_step = 0;
  Change change;
  std::vector<Incarnation> roll;  // by rank: the incarnation that it addresses; empty: that rank had not joined
};

bool IsIncarnation(std::string_view text_untrusted);
// The incarnation that the proposal addresses on this rank; empty: it addresses none.
Incarnation MeantFor(const Proposal& proposal, int rank);

enum class Cause : uint8_t {
  kNone,        // a commit
  kLate,        // a rank reached the step before the decision
  kSilent,      // ranks did not vote in time
  kSuperseded,  // replaced by a newer edit
  kCannot,      // a rank cannot apply it
  kRenumber,    // a rank has used the plan's number for a plan of its own (its model has grown)
  kNewcomer,    // a rank has joined or restarted since it was proposed
};

struct Decision {
  bool commit = false;
  Cause cause = Cause::kNone;
  int rank = 0;             // the rank that decided
  PlanId next_plan_id = 0;  // kRenumber: the first number that is free on this rank
  std::string reason;       // human-readable
  int64_t step = 0;         // kLate: the step that the rank has reached
};

// The newest proposal of the leader's session; 0: none yet. A leader that starts has a new session. A rank that reads
// another version of the format follows no leader.
struct Latest {
  Incarnation session;  // the leader's incarnation
  int64_t number = 0;
  std::string run_id;
  bool rings = false;    // the leader rings the bell of every rank when there is news
  int64_t question = 0;  // number of the newest question to all ranks; 0: none yet
};

std::string Encode(const Proposal& proposal);
std::string Encode(const Decision& decision);
std::string Encode(const Latest& latest);
std::optional<Proposal> ProposalFrom(std::string_view text_untrusted);
std::optional<Decision> DecisionFrom(std::string_view text_untrusted);
std::optional<Latest> LatestFrom(std::string_view text_untrusted);
// The reason why a text cannot be read as Latest, if it has another version of the format; otherwise empty.
std::string OtherVersion(std::string_view latest_untrusted);

// The ranks append words to one text, one per line. The newest word of a rank counts; a repeated line has no effect.
std::string WordLine(int rank, std::string_view word);
std::map<int, std::string> WordsFrom(std::string_view text_untrusted);

// The reason why there was no commit: "rank 3 had reached step 41 before the decision".
std::string AbortText(const Decision& decision);

}  // namespace stepwatch::agree
