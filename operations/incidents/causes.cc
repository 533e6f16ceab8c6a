#include "operations/incidents/causes.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace stepwatch::operations {
namespace {

constexpr double kFollowSeconds = 60;     // in which ranks fail one after the other
constexpr double kHardwareSeconds = 600;  // in which a faulty GPU brings its process down
// Effects of one cause on several numbers begin within this many steps of each other. If beats are rare they are seen
// within this many beats; pace is judged by rounds of some seconds.
constexpr int64_t kTogetherSteps = 20;
constexpr double kTogetherBeats = 12;
constexpr double kTogetherSeconds = 5;
constexpr double kPaceSeconds = 30;
constexpr std::string_view kNumberWords[] = {"nan", "inf", "finite", "diverge", "overflow"};

bool ShareRank(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t rank) { return std::find(b.begin(), b.end(), rank) != b.end(); });
}

// Matches "nan" in "loss is nan", not in "finance".
bool HasWord(const std::string& text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || std::isalpha(static_cast<unsigned char>(text[at - 1])) == 0;
    if (begins) return true;
  }
  return false;
}

bool SpeaksOfNumbers(const Finding& finding) {
  std::string text;
  for (const char* key : {"type", "message"})
    if (const EvidenceValue* value = finding.evidence.Find(key))
      if (const auto* words = std::get_if<std::string>(value)) text += *words + " ";
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return std::any_of(std::begin(kNumberWords), std::end(kNumberWords),
                     [&](std::string_view word) { return HasWord(text, word); });
}

bool BeginsWith(const CauseView& cause, double seconds_min) {
  if (cause.steps_quiet && *cause.steps_quiet <= kTogetherSteps) return true;
  return cause.seconds_quiet <= std::max(seconds_min, kTogetherBeats * cause.beat_seconds);
}

bool IsNonfinite(IncidentKind kind) {
  return kind == IncidentKind::kLossNonfinite || kind == IncidentKind::kGradNonfinite;
}

// A diverging training goes from one stage to the next until something ends it. Other faults of numbers cause no later
// ones: a finding that begins while they last is another fault.
bool GoesOnAs(IncidentKind cause, IncidentKind kind) {
  const bool blows_up =
      cause == IncidentKind::kGradExplosion || cause == IncidentKind::kLossSpike || cause == IncidentKind::kDivergence;
  if (blows_up) return kind != IncidentKind::kRankDisagreement;
  return IsNonfinite(cause) && IsNonfinite(kind);
}

bool NumbersExplain(const CauseView& cause, const Finding& finding) {
  const IncidentKind kind = finding.kind;
  if (FamilyOf(kind) == Family::kNumbers)
    return GoesOnAs(cause.incident->kind, kind) || BeginsWith(cause, kTogetherSeconds);
  if (kind == IncidentKind::kException) return SpeaksOfNumbers(finding);
  // A trainer that gives up.
  return kind == IncidentKind::kProcessLost && finding.evidence.Find("end") != nullptr &&
         cause.incident->severity == Severity::kCritical;
}

bool SpeaksOfNumbers(const Incident& incident) {
  Finding finding;
  finding.evidence = incident.evidence;
  return SpeaksOfNumbers(finding);
}

bool LifeExplains(const CauseView& cause, const Finding& finding) {
  const IncidentKind kind = finding.kind;
  const Incident& incident = *cause.incident;
  // A lost process does not make a number of another one NaN.
  if (IsNonfinite(kind))
    return incident.kind == IncidentKind::kException && SpeaksOfNumbers(incident) && !cause.has_trained_since;
  const bool same_rank = ShareRank(incident.ranks, finding.ranks);
  const bool is_over = cause.has_trained_on && !same_rank;
  const bool is_near = !is_over && (cause.seconds_open <= kFollowSeconds || !cause.has_trained_since);
  const bool may_be_same = same_rank || incident.ranks.empty() || finding.ranks.empty();
  if (kind == IncidentKind::kGpuFault) return same_rank && cause.seconds_open <= kFollowSeconds;
  if (kind == IncidentKind::kOutOfMemory)
    return incident.kind == IncidentKind::kOutOfMemory
               ? is_near
               : incident.kind != IncidentKind::kStuck && may_be_same && cause.seconds_open <= kFollowSeconds;
  if (incident.kind == IncidentKind::kGpuFault)
    return is_near || (may_be_same && cause.seconds_open <= kHardwareSeconds);
  // A rank that stands still, and a lost one, are two faults as long as the others are alive.
  if (FamilyOf(kind) == Family::kLife) return is_near;
  return !cause.has_trained_since;
}

int Rank(const Finding& finding) {
  switch (finding.kind) {
    case IncidentKind::kGpuFault: return 6;
    case IncidentKind::kOutOfMemory: return 5;
    case IncidentKind::kException: return finding.is_symptom ? 1 : 4;
    case IncidentKind::kProcessLost: return finding.is_symptom ? 0 : 2;
    default: return 0;
  }
}

}  // namespace

Family FamilyOf(IncidentKind kind) {
  switch (kind) {
    case IncidentKind::kLossNonfinite:
    case IncidentKind::kLossSpike:
    case IncidentKind::kDivergence:
    case IncidentKind::kGradNonfinite:
    case IncidentKind::kGradExplosion:
    case IncidentKind::kGradCollapse:
    case IncidentKind::kRankDisagreement: return Family::kNumbers;
    case IncidentKind::kThroughputDrop:
    case IncidentKind::kStraggler: return Family::kPace;
    case IncidentKind::kCheckpointOverdue: return Family::kSaving;
    default: return Family::kLife;
  }
}

bool Explains(const CauseView& cause, const Finding& finding) {
  switch (FamilyOf(cause.incident->kind)) {
    case Family::kNumbers: return NumbersExplain(cause, finding);
    case Family::kLife: return LifeExplains(cause, finding);
    case Family::kPace:
      // A second straggler is a separate fault; a slow run as a whole is not.
      return finding.kind == IncidentKind::kThroughputDrop ||
             (finding.kind == IncidentKind::kStraggler && cause.incident->kind == IncidentKind::kThroughputDrop &&
              BeginsWith(cause, kPaceSeconds));
    case Family::kSaving: return false;
  }
  return false;
}

bool Outranks(const Finding& better, const Finding& other) {
  if (FamilyOf(better.kind) == Family::kPace)
    return better.kind == IncidentKind::kStraggler && other.kind == IncidentKind::kThroughputDrop;
  return FamilyOf(better.kind) == Family::kLife && FamilyOf(other.kind) == Family::kLife && Rank(better) > Rank(other);
}

}  // namespace stepwatch::operations
