#include "controller/budget/job_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "controller/agree/head_reader.h"

namespace stepwatch::budget {
namespace {

using Decision = SamplingGovernor::Decision;
using Kind = BudgetProposal::Kind;

constexpr std::string_view kQuestion = "budget";
constexpr std::string_view kNothing = "-";
constexpr double kPercentMax = 1e9;

// The proposals to raise, or to lower, with their ranks.
std::vector<JobDecision> ProposalsFor(const std::vector<BudgetProposal>& proposals, bool lowers) {
  std::vector<JobDecision> found;
  for (size_t rank = 0; rank < proposals.size(); ++rank)
    if (proposals[rank].kind == Kind::kChange && proposals[rank].decision.lowers == lowers)
      found.push_back({static_cast<int>(rank), proposals[rank].decision});
  return found;
}

template <class Value>
const JobDecision& Greatest(const std::vector<JobDecision>& proposals, const Value& value) {
  return *std::max_element(proposals.begin(), proposals.end(),
                           [&](const JobDecision& a, const JobDecision& b) { return value(a) < value(b); });
}

// Applies the greatest interval among proposals with the same kinds.
JobDecision Widest(JobDecision decision, const std::vector<JobDecision>& proposals) {
  plan::Sampling& sampling = decision.decision.sampling;
  const int64_t factor = sampling.factor;
  for (const JobDecision& each : proposals)
    if (each.decision.sampling.left_out == sampling.left_out)
      sampling.factor = std::max(sampling.factor, each.decision.sampling.factor);
  decision.decision.percent_then *= static_cast<double>(factor) / static_cast<double>(sampling.factor);
  return decision;
}

JobDecision Lowered(const std::vector<JobDecision>& proposals) {
  return Widest(Greatest(proposals, [](const JobDecision& each) { return each.decision.percent; }), proposals);
}

// A rank whose proposal adds no kind has reported no cost for one, so then no kind is added.
std::optional<JobDecision> Raised(const std::vector<JobDecision>& proposals, const plan::Sampling& in_force) {
  const auto keeps_kinds = std::find_if(proposals.begin(), proposals.end(), [&](const JobDecision& each) {
    return each.decision.sampling.left_out == in_force.left_out;
  });
  JobDecision raised = keeps_kinds != proposals.end()
                           ? *keeps_kinds
                           : Greatest(proposals, [](const JobDecision& each) { return each.decision.percent_then; });
  raised = Widest(std::move(raised), proposals);
  const plan::Sampling& sampling = raised.decision.sampling;
  if (sampling.left_out == in_force.left_out && sampling.factor >= in_force.factor) return std::nullopt;
  return raised;
}

// --- texts ---

std::string NamesOf(const std::vector<SiteKind>& kinds) {
  std::string names;
  for (const SiteKind kind : kinds) names += (names.empty() ? "" : ",") + std::string(SiteKindName(kind));
  return names.empty() ? std::string(kNothing) : names;
}

std::string SamplingText(const plan::Sampling& sampling) {
  return std::to_string(sampling.factor) + " " + NamesOf(sampling.left_out);
}

std::optional<SiteKind> KindOf(std::string_view name) {
  for (size_t i = 0; i < kSiteKindCount; ++i)
    if (name == SiteKindName(static_cast<SiteKind>(i))) return static_cast<SiteKind>(i);
  return std::nullopt;
}

// Each kind once.
std::vector<SiteKind> ReadKinds(agree::HeadReader* reader) {
  std::vector<SiteKind> kinds;
  std::string_view names = reader->Word();
  reader->Need(!names.empty());
  if (names == kNothing) return kinds;
  while (!names.empty() && reader->good()) {
    const size_t end = std::min(names.find(','), names.size());
    const std::optional<SiteKind> kind = KindOf(names.substr(0, end));
    reader->Need(kind && std::find(kinds.begin(), kinds.end(), *kind) == kinds.end());
    if (kind) kinds.push_back(*kind);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return kinds;
}

plan::Sampling ReadSampling(agree::HeadReader* reader) {
  plan::Sampling sampling;
  sampling.factor = reader->Number<int64_t>();
  sampling.left_out = ReadKinds(reader);
  reader->Need(sampling.factor >= 1 && sampling.factor <= SamplingGovernor::kFactorMax);
  reader->Need(std::is_sorted(sampling.left_out.begin(), sampling.left_out.end()));
  return sampling;
}

double ReadPercent(agree::HeadReader* reader) {
  const auto percent = reader->Number<double>();
  reader->Need(std::isfinite(percent) && percent >= 0 && percent <= kPercentMax);
  return percent;
}

std::string DecisionWords(const Decision& decision) {
  return fmt::format("{} {} {} {} {}", decision.lowers ? "lower" : "raise", SamplingText(decision.sampling),
                     std::min(decision.percent, kPercentMax), std::min(decision.percent_then, kPercentMax),
                     NamesOf(decision.most_expensive));
}

Decision ReadDecision(std::string_view direction, agree::HeadReader* reader) {
  Decision decision;
  decision.lowers = direction == "lower";
  reader->Need(decision.lowers || direction == "raise");
  decision.sampling = ReadSampling(reader);
  decision.percent = ReadPercent(reader);
  decision.percent_then = ReadPercent(reader);
  decision.most_expensive = ReadKinds(reader);
  return decision;
}

}  // namespace

std::optional<JobDecision> Combine(const std::vector<BudgetProposal>& proposals, const plan::Sampling& in_force) {
  const std::vector<JobDecision> lower = ProposalsFor(proposals, true);
  if (!lower.empty()) return Lowered(lower);
  const std::vector<JobDecision> raise = ProposalsFor(proposals, false);
  const bool is_against = std::any_of(proposals.begin(), proposals.end(), [](const BudgetProposal& each) {
    return each.kind != Kind::kChange && each.kind != Kind::kNone;
  });
  return raise.empty() || is_against ? std::nullopt : Raised(raise, in_force);
}

std::string WhyNotDone(const std::vector<BudgetProposal>& proposals, bool votes) {
  for (size_t rank = 0; rank < proposals.size(); ++rank) {
    if (proposals[rank].kind == Kind::kIncompatible)
      return fmt::format("rank {} runs another release of stepwatch, which does not support a budget for all ranks",
                         rank);
    if (proposals[rank].kind == Kind::kMissing && !votes)
      return fmt::format("rank {} did not answer, and without a vote its sampling would be unknown", rank);
  }
  return "";
}

std::string BudgetQuestionText(const std::string& sha256, const plan::Sampling& in_force) {
  return fmt::format("{} {} {}\n", kQuestion, sha256, SamplingText(in_force));
}

std::optional<BudgetQuestion> BudgetQuestionFrom(std::string_view text_untrusted) {
  agree::HeadReader reader(text_untrusted);
  reader.Need(reader.Word() == kQuestion);
  BudgetQuestion question;
  question.sha256 = reader.Word();
  question.in_force = ReadSampling(&reader);
  reader.Need(agree::IsHex(question.sha256));
  return reader.good() ? std::optional(std::move(question)) : std::nullopt;
}

std::string Encode(const BudgetProposal& proposal) {
  switch (proposal.kind) {
    case Kind::kMissing:
    case Kind::kIncompatible: return "";
    case Kind::kNone: return "none\n";
    case Kind::kStay: return "stay\n";
    case Kind::kChange: return DecisionWords(proposal.decision) + "\n";
  }
  return "";
}

BudgetProposal BudgetProposalFrom(std::string_view text_untrusted) {
  agree::HeadReader reader(text_untrusted);
  const std::string_view word = reader.Word();
  if (word == "none") return {Kind::kNone, {}};
  if (word == "stay") return {Kind::kStay, {}};
  BudgetProposal proposal{Kind::kChange, ReadDecision(word, &reader)};
  return reader.good() ? proposal : BudgetProposal{Kind::kIncompatible, {}};
}

std::string Encode(const JobDecision& decision) {
  return fmt::format("{} {}\n", decision.rank, DecisionWords(decision.decision));
}

std::optional<JobDecision> JobDecisionFrom(std::string_view text_untrusted) {
  agree::HeadReader reader(text_untrusted);
  JobDecision decision;
  decision.rank = reader.Number<int>();
  const std::string_view direction = reader.Word();
  decision.decision = ReadDecision(direction, &reader);
  reader.Need(decision.rank >= 0);
  return reader.good() ? std::optional(std::move(decision)) : std::nullopt;
}

// --- when to ask ---

void QuestionPace::Collected(int64_t steps, const std::optional<Decision>& wants) {
  collected_ += steps;
  const Direction before = std::exchange(wants_, !wants          ? Direction::kNone
                                                 : wants->lowers ? Direction::kLower
                                                                 : Direction::kRaise);
  if (wants_ != Direction::kNone && wants_ != before) doubled_ = 0;
}

bool QuestionPace::IsDue(Time now) const {
  const int64_t first = wants_ == Direction::kNone ? kSeldom : kOften;
  const int64_t times = wants_ == Direction::kNone ? std::min(int64_t{1} << doubled_, kBetweenMost) : 1;
  const bool is_soon = answered_ && now - *answered_ < kBetween * times;
  return !is_open_ && !is_soon && collected_ >= std::min(first << doubled_, kMost);
}

void QuestionPace::Answered(Time now) {
  is_open_ = false;
  answered_ = now;
  collected_ = 0;
  Double();
}

void QuestionPace::BeginAnew() {
  collected_ = doubled_ = 0;
  wants_ = Direction::kNone;
}

void QuestionPace::Double() {
  doubled_ = std::min<int64_t>(doubled_ + 1, 6);  // 2^6: kOften has become kMost
}

}  // namespace stepwatch::budget
