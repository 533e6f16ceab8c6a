// The phrases by which anomalies are recognised.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stepwatch::logs {

enum class Effect : uint8_t {
  kFinds,         // the class, with its usual role and severity
  kFindsCascade,  // the class as a consequence
  kFindsSymptom,  // the class as a symptom
  kFindsNotice,   // the class as a notice
  kFindsXid,      // the class that the captured number of an Xid stands for
  kCancels,       // findings of the classes, which the same message seems to show
  kSoftens,       // findings of the classes to notices: the program handled the fault
};

struct Pattern {
  // A class, or, for kCancels and kSoftens, classes separated by spaces; "*" stands for all.
  std::string_view classes;
  // RE2. A named group is a fact; the group `culprit` is the rank at fault; the names of groups of sizes begin with
  // `bytes`, and their facts are whole numbers.
  std::string_view regex;
  // Words separated by '|', in any case; without one of them the regex never matches. '$' at the end of a word stands
  // for a byte that is neither letter nor digit; "a~b" is the word a that is not followed by b. Empty for kCancels
  // and kSoftens, which matter only beside a finding.
  std::string_view literals;
  Effect effect = Effect::kFinds;
};

std::span<const Pattern> AnomalyPatterns();

// The first of two classes in one message is the better name of the fault that both describe.
struct Precedence {
  std::string_view better, hidden;  // several classes separated by spaces
};
std::span<const Precedence> AnomalyPrecedences();

}  // namespace stepwatch::logs
