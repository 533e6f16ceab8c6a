#include "controller/agree/messages.h"

#include <algorithm>
#include <array>
#include <utility>

#include "controller/agree/head_reader.h"

namespace stepwatch::agree {
namespace {

// The modes of each deed. A release that does not know a deed rejects the text and does not vote.
constexpr std::array<std::string_view, 12> kWays = {"strict",          "besteffort",          "local",         //
                                                    "strict-pause",    "besteffort-pause",    "local-pause",   //
                                                    "strict-resume",   "besteffort-resume",   "local-resume",  //
                                                    "strict-sampling", "besteffort-sampling", "local-sampling"};
constexpr size_t kModes = 3;
constexpr std::array<std::string_view, 7> kCauses = {"none",   "late",     "silent",  "superseded",
                                                     "cannot", "renumber", "newcomer"};
// Version of the format of all messages. Every rank reads Latest before any other message.
constexpr std::string_view kVersion = "v2";
constexpr size_t kVersionBytesMax = 9;
constexpr std::string_view kNobody = "-";

std::string RollText(const std::vector<Incarnation>& roll) {
  std::string text;
  for (const Incarnation& each : roll) text += (text.empty() ? "" : ",") + (each.empty() ? std::string(kNobody) : each);
  return text.empty() ? std::string(kNobody) : text;
}

std::optional<std::vector<Incarnation>> RollFrom(std::string_view text_untrusted) {
  std::vector<Incarnation> roll;
  for (size_t from = 0; from <= text_untrusted.size();) {
    const size_t end = std::min(text_untrusted.find(',', from), text_untrusted.size());
    const std::string_view each = text_untrusted.substr(from, end - from);
    if (each != kNobody && !IsHex(each)) return std::nullopt;
    roll.emplace_back(each == kNobody ? "" : each);
    from = end + 1;
  }
  return roll;
}

}  // namespace

bool IsIncarnation(std::string_view text_untrusted) {
  return IsHex(text_untrusted);
}

Incarnation MeantFor(const Proposal& proposal, int rank) {
  const size_t index = static_cast<size_t>(rank);
  return index < proposal.roll.size() ? proposal.roll[index] : Incarnation();
}

std::string Encode(const Proposal& proposal) {
  const Change& change = proposal.change;
  return std::to_string(proposal.number) + " " + std::to_string(proposal.at_step) + " " +
         std::string(kWays[static_cast<size_t>(change.deed) * kModes + static_cast<size_t>(change.mode)]) + " " +
         std::to_string(change.plan_id) + " " + change.sha256 + " " + RollText(proposal.roll) + "\n" + change.bytes;
}

std::optional<Proposal> ProposalFrom(std::string_view text_untrusted) {
  HeadReader reader(text_untrusted);
  Proposal proposal;
  proposal.number = reader.Number<int64_t>();
  proposal.at_step = reader.Number<int64_t>();
  const auto way = reader.OneOf<size_t>(kWays);
  proposal.change.mode = static_cast<Mode>(way % kModes);
  proposal.change.deed = static_cast<Deed>(way / kModes);
  proposal.change.plan_id = reader.Number<PlanId>();
  proposal.change.sha256 = reader.Word();
  std::optional<std::vector<Incarnation>> roll = RollFrom(reader.Word());
  proposal.change.bytes = reader.Rest();
  reader.Need(proposal.number > 0 && IsHex(proposal.change.sha256) && roll);
  if (roll) proposal.roll = *std::move(roll);
  return reader.good() ? std::optional<Proposal>(std::move(proposal)) : std::nullopt;
}

std::string Encode(const Decision& decision) {
  return std::string(decision.commit ? "commit" : "abort") + " " + std::to_string(decision.rank) + " " +
         std::string(kCauses[static_cast<size_t>(decision.cause)]) + " " + std::to_string(decision.next_plan_id) + " " +
         std::to_string(decision.step) + "\n" + decision.reason;
}

std::optional<Decision> DecisionFrom(std::string_view text_untrusted) {
  HeadReader reader(text_untrusted);
  Decision decision;
  const std::string_view verdict = reader.Word();
  decision.commit = verdict == "commit";
  decision.rank = reader.Number<int>();
  decision.cause = reader.OneOf<Cause>(kCauses);
  decision.next_plan_id = reader.Number<PlanId>();
  decision.step = reader.Number<int64_t>();
  decision.reason = reader.Rest();
  reader.Need(verdict == "commit" || verdict == "abort");
  reader.Need(decision.commit == (decision.cause == Cause::kNone));
  return reader.good() ? std::optional<Decision>(std::move(decision)) : std::nullopt;
}

std::string Encode(const Latest& latest) {
  return std::string(kVersion) + " " + latest.session + " " + std::to_string(latest.number) +
         (latest.rings ? " rings " : " silent ") + std::to_string(latest.question) + "\n" + latest.run_id;
}

std::optional<Latest> LatestFrom(std::string_view text_untrusted) {
  HeadReader reader(text_untrusted);
  Latest latest;
  reader.Need(reader.Word() == kVersion);
  latest.session = reader.Word();
  latest.number = reader.Number<int64_t>();
  latest.rings = reader.Word() == "rings";
  if (!reader.at_end()) latest.question = reader.Number<int64_t>();
  latest.run_id = reader.Rest();
  reader.Need(IsHex(latest.session) && latest.number >= 0);
  return reader.good() ? std::optional<Latest>(std::move(latest)) : std::nullopt;
}

std::string OtherVersion(std::string_view latest_untrusted) {
  const std::string_view word = latest_untrusted.substr(0, latest_untrusted.find_first_of(" \n"));
  const bool is_version = word.size() >= 2 && word.size() <= kVersionBytesMax && word.front() == 'v' &&
                          word.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!is_version || word == kVersion) return "";
  return "rank 0 uses version " + std::string(word) + " of the agreement, this rank " + std::string(kVersion) +
         ": all ranks of a job must run the same release of Stepwatch";
}

std::string WordLine(int rank, std::string_view word) {
  return std::to_string(rank) + " " + std::string(word) + "\n";
}

std::map<int, std::string> WordsFrom(std::string_view text_untrusted) {
  std::map<int, std::string> words;
  while (!text_untrusted.empty()) {
    const size_t end = std::min(text_untrusted.find('\n'), text_untrusted.size());
    HeadReader reader(text_untrusted.substr(0, end));
    const int rank = reader.Number<int>();
    const std::string_view word = reader.Word();
    if (reader.good() && !word.empty()) words[rank] = word;
    text_untrusted.remove_prefix(std::min(end + 1, text_untrusted.size()));
  }
  return words;
}

std::string AbortText(const Decision& decision) {
  const std::string rank = "rank " + std::to_string(decision.rank);
  switch (decision.cause) {
    case Cause::kNone: return "";
    case Cause::kLate:
      return rank + " had reached step " + std::to_string(decision.step) + " before the decision" +
             (decision.reason.empty() ? "" : ", and " + decision.reason);
    case Cause::kSilent: return decision.reason;
    case Cause::kSuperseded: return "a newer edit arrived";
    case Cause::kCannot: return rank + " cannot apply it: " + decision.reason;
    case Cause::kRenumber: return rank + " has used the plan's number for a plan of its own";
    case Cause::kNewcomer: return rank + " has joined or restarted since it was proposed";
  }
  return "";
}

}  // namespace stepwatch::agree
