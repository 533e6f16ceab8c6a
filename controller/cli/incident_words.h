// Incidents in words: what each kind means, what its evidence says, and where to look next.
//
// What is in an incident was written by another process: members are read as they are found.
#pragma once

#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::cli {

struct IncidentWords {
  const char* kind;
  const char* what;                    // has happened
  std::vector<const char*> sentences;  // of its evidence, the most telling first; see EvidenceWords
  const char* next;                    // to look at
};

// One for each kind, in the order of IncidentKind.
const std::vector<IncidentWords>& AllIncidentWords();
// Of a kind that a later stepwatchd has as well.
const IncidentWords& WordsOfKind(const std::string& kind);

// The evidence as sentences. What no sentence speaks of follows as `key value`; stacks and what is told of the end of
// the incident do not.
std::vector<std::string> EvidenceWords(const Json& incident_untrusted);

// Stacks that the evidence holds: of whom, and the text.
struct CollectedStack {
  std::string of;  // "rank 3", "where the exception was raised", "the run"
  std::string text_untrusted;
};
std::vector<CollectedStack> StacksOf(const Json& incident_untrusted);

// "rank 3", "ranks 0, 3 and 12 more", "no rank can be named".
std::string CulpritsText(const Json& incident_untrusted);
// "0,3 +12", "-".
std::string ShortCulpritsText(const Json& incident_untrusted);

}  // namespace stepwatch::cli
