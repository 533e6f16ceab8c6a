#include "operations/detectors/life/exception.h"

#include <algorithm>
#include <cctype>

#include "operations/detectors/life/exception_words.h"

namespace stepwatch::operations {
namespace {

constexpr double kCascadePatience = 2.5;
constexpr double kAgainSeconds = 5;  // of training, after which another exception is another fault
constexpr size_t kStackBytesShown = 4000;
constexpr size_t kFingerprintBytes = 160;

}  // namespace

std::string FingerprintOf(const ExceptionEvent& exception) {
  std::string text = exception.type + ": ";
  for (const char letter : exception.message) {
    if (text.size() >= kFingerprintBytes || letter == '\n') break;
    const bool is_digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!is_digit)
      text += letter;
    else if (text.back() != '#')
      text += '#';
  }
  return text;
}

void ExceptionDetector::OnRestart() {
  first_.reset();
  followed_.clear();
}

// A fault that is caught and returns at once is a lasting fault.
bool ExceptionDetector::IsAgain(const Line& line, const ExceptionEvent& exception, double now) const {
  return line.rank == first_->rank && now - first_->again_at <= kAgainSeconds &&
         first_->fingerprint == FingerprintOf(exception);
}

void ExceptionDetector::Follow(const Line& line, double now, Findings* findings) {
  if (line.rank == first_->rank) {
    first_->again_at = now;
    first_->finding.evidence.Set("times", ++first_->times);
    return findings->Raise(first_->finding);
  }
  if (!line.rank || !followed_.insert(*line.rank).second) return;
  first_->finding.evidence.Set("ranks_followed", static_cast<int64_t>(followed_.size()));
  findings->Raise(first_->finding);
}

void ExceptionDetector::OnEvent(const RunState& run, const Line& line, double now, Findings* findings) {
  const auto* exception = std::get_if<ExceptionEvent>(&std::get<Event>(line.what));
  if (exception == nullptr) return;
  const ExceptionWords words = WordsOf(*exception);
  if (words.are_no_fault) return;
  const bool is_memory = words.are_of_memory;
  const bool is_cascade = words.are_of_peers && (run.world() != 1 || words.are_of_child);
  // A loader that has died causes the exceptions of its rank's peers, which may arrive sooner.
  const bool is_cause = !is_cascade || words.are_of_child;
  const bool was_only_cascade =
      first_ && first_->is_cascade && !first_->is_of_child && is_cause && now - first_->at <= kCascadePatience;
  // Peers of a rank that has failed may wait until their collectives time out before they fail.
  const bool trains_on = first_ && run.progress_at() > first_->at + kAgainSeconds;
  if (first_ && !was_only_cascade && (!trains_on || IsAgain(line, *exception, now))) return Follow(line, now, findings);
  First first;
  first.kind = is_memory ? IncidentKind::kOutOfMemory : IncidentKind::kException;
  first.rank = line.rank;
  first.at = first.again_at = now;
  first.is_cascade = is_cascade;
  first.is_of_child = words.are_of_child;
  Finding& finding = first.finding;
  finding.kind = first.kind;
  // A later exception of another kind is a new fault; lack of memory has other evidence, which joins it.
  if (!is_memory) finding.key = FingerprintOf(*exception) + (line.rank ? " of " + std::to_string(*line.rank) : "");
  if (line.rank) finding.ranks = {*line.rank};
  const RankState* rank = line.rank ? run.FindRank(*line.rank) : nullptr;
  finding.since_step = rank != nullptr && rank->step ? rank->step : run.step();
  finding.evidence.Set("type", exception->type);
  finding.evidence.Set("message", exception->message);
  if (!exception->stack.empty()) finding.evidence.Set("stack", exception->stack.substr(0, kStackBytesShown));
  first.fingerprint = FingerprintOf(*exception);
  finding.evidence.Set("fingerprint", first.fingerprint);
  finding.evidence.Set("ranks_followed", int64_t{0});
  if (is_memory) finding.evidence.SetText("where", words.are_of_device ? "device" : "host");
  finding.is_symptom = is_cascade && !words.are_of_child;
  finding.hold_seconds = is_cascade ? kCascadePatience : 0;
  followed_.clear();
  if (was_only_cascade && first_->rank) followed_.insert(*first_->rank);
  findings->Raise(finding);
  first_ = std::move(first);
}

}  // namespace stepwatch::operations
