// Runs, incidents and evidence, as stepwatchd reports them, as text. Another process wrote them: members that are
// missing, or of another type, are left out. Pure.
#pragma once

#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/vocabulary/incident_kinds.h"

namespace stepwatch::cli {

// The table of `stepwatch runs`. `now`: in seconds since 1970. `all`: the runs from which the ids are distinguished.
std::string RunsText(const std::vector<Json>& runs_untrusted, const std::vector<Json>& all, double now);
// "train", "ended (signal)".
std::string RunStateText(const Json& run_untrusted);
// True unless the run has ended and has no open incident.
bool IsOfInterest(const Json& run_untrusted);

// The table of `stepwatch incidents`.
std::string IncidentsText(const std::vector<Json>& incidents_untrusted, double now);
// A line of `stepwatch incidents --watch`. `change`: opened, updated, resolved, acknowledged, or open for an incident
// from before.
std::string ChangeLine(const std::string& change, const Json& incident_untrusted);

// The tables of `stepwatch incidents --delivered`: receivers, and messages.
std::string ReceiversText(const std::vector<Json>& receivers_untrusted);
std::string DeliveriesText(const std::vector<Json>& messages_untrusted);

bool IsOpen(const Json& incident_untrusted);
// The time for which an incident has been, or was, open.
double OpenSeconds(const Json& incident_untrusted, double now);
// "acknowledged by kim: looking; silenced"; empty: neither.
std::string ReportedBy(const Json& incident_untrusted);
// Open before resolved, critical before warning, unattended before acknowledged or silenced, the oldest first.
bool IsWorse(const Json& a_untrusted, const Json& b_untrusted);

// Also valid for a kind that only a newer stepwatchd has.
const vocabulary::IncidentKindText& TextOfKind(const std::string& kind);
// Sentences about the evidence of a kind, the most telling first, with {keys} for members.
std::vector<const char*> SentencesOfKind(const std::string& kind);

// The evidence as sentences. Members that no sentence names follow as `key value`, except stacks and members about the
// end of the incident.
std::vector<std::string> EvidenceText(const Json& incident_untrusted);

struct CollectedStack {
  std::string of;  // "rank 3", "the exception", "the run"
  std::string text_untrusted;
};
// The stacks in the evidence.
std::vector<CollectedStack> StacksOf(const Json& incident_untrusted);

// "rank 3", "ranks 0, 3 and 12 more", "no culprit rank identified".
std::string CulpritsText(const Json& incident_untrusted);
// "0,3 +12", "-".
std::string ShortCulpritsText(const Json& incident_untrusted);

// A short id whole; of a longer one the shortest prefix that no other id has, at least eight characters.
std::vector<std::string> ShortIds(const std::vector<std::string>& ids);

}  // namespace stepwatch::cli
