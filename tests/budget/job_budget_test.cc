// The decision of a job from the budget proposals of its ranks, in all combinations, and the texts between them.
#include "controller/budget/job_budget.h"

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::budget {
namespace {

using Kind = BudgetProposal::Kind;
using std::chrono::milliseconds;

const plan::Sampling kInForce{10, {SiteKind::kActv}};

BudgetProposal Change(bool lowers, plan::Sampling sampling, double percent) {
  return {Kind::kChange, {std::move(sampling), lowers, percent, percent / 2, {SiteKind::kGradReduced}}};
}
BudgetProposal Of(Kind kind) {
  return {kind, {}};
}

// Every answer of a rank, about kInForce.
const std::vector<BudgetProposal> kProposals = {
    Of(Kind::kMissing),
    Of(Kind::kIncompatible),
    Of(Kind::kNone),
    Of(Kind::kStay),
    Change(true, {20, {SiteKind::kActv}}, 3),
    Change(true, {50, {SiteKind::kActv}}, 2),
    Change(true, {15, {SiteKind::kActv, SiteKind::kGradReduced}}, 9),
    Change(false, {4, {SiteKind::kActv}}, 0.3),
    Change(false, {6, {SiteKind::kActv}}, 0.4),
    Change(false, {30, {}}, 0.5),
};

void CheckCombined(const std::vector<BudgetProposal>& proposals) {
  const std::optional<JobDecision> decision = Combine(proposals, kInForce);
  const auto any = [&](const auto& is) { return std::any_of(proposals.begin(), proposals.end(), is); };
  const bool lowers =
      any([](const BudgetProposal& each) { return each.kind == Kind::kChange && each.decision.lowers; });
  const bool raises =
      any([](const BudgetProposal& each) { return each.kind == Kind::kChange; }) && !lowers &&
      !any([](const BudgetProposal& each) { return each.kind != Kind::kChange && each.kind != Kind::kNone; });
  REQUIRE(decision.has_value() == (lowers || raises));
  const bool is_incompatible = any([](const BudgetProposal& each) { return each.kind == Kind::kIncompatible; });
  const bool is_missing = any([](const BudgetProposal& each) { return each.kind == Kind::kMissing; });
  REQUIRE(WhyNotDone(proposals, true).empty() == !is_incompatible);
  REQUIRE(WhyNotDone(proposals, false).empty() == !(is_incompatible || is_missing));
  if (!decision) return;
  const BudgetProposal& whose = proposals.at(static_cast<size_t>(decision->rank));
  REQUIRE(whose.kind == Kind::kChange);
  REQUIRE(decision->decision.lowers == lowers);
  REQUIRE(decision->decision.sampling != kInForce);
  REQUIRE(decision->decision.sampling.left_out == whose.decision.sampling.left_out);
  for (const BudgetProposal& each : proposals) {
    if (each.kind != Kind::kChange || each.decision.lowers != lowers) continue;
    // The worst rank decides; nobody who wants the same kinds gets more than it wants.
    if (lowers) REQUIRE(whose.decision.percent >= each.decision.percent);
    if (each.decision.sampling.left_out == decision->decision.sampling.left_out)
      REQUIRE(decision->decision.sampling.factor >= each.decision.sampling.factor);
  }
}

TEST_CASE("one rank over its budget lowers all, and more is collected only if all ranks want it: all combinations") {
  const size_t count = kProposals.size();
  for (size_t i = 0; i < count * count * count; ++i)
    CheckCombined({kProposals[i % count], kProposals[i / count % count], kProposals[i / count / count]});
}

TEST_CASE("the worst rank's proposal is taken, with the widest interval that the ranks want for the same kinds") {
  const auto lowered = Combine({kProposals[5], kProposals[4], Of(Kind::kMissing)}, kInForce);
  REQUIRE(lowered);
  CHECK(lowered->rank == 1);
  CHECK(lowered->decision.sampling == plan::Sampling{50, {SiteKind::kActv}});
  CHECK(lowered->decision.percent == 3);
  CHECK(lowered->decision.percent_then == Approx(1.5 * 20 / 50));
  const auto raised = Combine({kProposals[7], kProposals[9], kProposals[8]}, kInForce);
  REQUIRE(raised);
  CHECK(raised->decision.sampling == plan::Sampling{6, {SiteKind::kActv}});
  CHECK_FALSE(Combine({}, kInForce));
}

TEST_CASE("questions, proposals and decisions read back as they were written") {
  for (const BudgetProposal& proposal : kProposals) {
    if (proposal.kind == Kind::kMissing) continue;  // no rank writes that
    const BudgetProposal read = BudgetProposalFrom(Encode(proposal));
    CHECK(read.kind == proposal.kind);
    CHECK(Encode(read) == Encode(proposal));
    if (proposal.kind != Kind::kChange) continue;
    const auto decision = JobDecisionFrom(Encode(JobDecision{7, proposal.decision}));
    REQUIRE(decision);
    CHECK(decision->rank == 7);
    CHECK(decision->decision.sampling == proposal.decision.sampling);
    CHECK(decision->decision.percent == proposal.decision.percent);
    CHECK(decision->decision.most_expensive == proposal.decision.most_expensive);
  }
  const auto question = BudgetQuestionFrom(BudgetQuestionText("0af", kInForce));
  REQUIRE(question);
  CHECK(question->sha256 == "0af");
  CHECK(question->in_force == kInForce);
  // A decision is the same text in every build of this version of the agreement.
  CHECK(Encode(JobDecision{2, kProposals[4].decision}) == "2 lower 20 actv 3 1.5 grad_reduced\n");
  CHECK(BudgetQuestionText("0af", {1, {}}) == "budget 0af 1 -\n");
}

TEST_CASE("texts that no rank writes are no question, no proposal and no decision") {
  for (const char* text : {"", "budget", "budget xyz 1 -\n", "budget 0af 0 -\n", "budget 0af 1001 -\n",
                           "budget 0af 1\n", "budget 0af 1 actv,actv\n", "budget 0af 1 cats\n", "{\"ask\":\"report\"}"})
    CHECK_FALSE(BudgetQuestionFrom(text));
  for (const char* text : {"", "maybe", "lower", "lower 2 - 1\n", "lower 2 - nan 1 -\n", "lower 2 - -1 1 -\n",
                           "lower 2 - inf 1 -\n", "lower -2 - 1 1 -\n", "raise 2 grad_reduced,actv 1 1 -\n"})
    CHECK(BudgetProposalFrom(text).kind == Kind::kIncompatible);
  for (const char* text : {"", "-1 lower 2 - 1 1 -\n", "1 stay\n", "1 lower 99999999999999999999 - 1 1 -\n"})
    CHECK_FALSE(JobDecisionFrom(text));
}

TEST_CASE("texts with any byte changed are read as something valid, or as nothing") {
  std::mt19937 random(3);
  const std::string written = Encode(JobDecision{2, kProposals[6].decision});
  for (int i = 0; i < 20000; ++i) {
    std::string text = written;
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto read = JobDecisionFrom(text);
    if (!read) continue;
    const plan::Sampling& sampling = read->decision.sampling;
    REQUIRE((sampling.factor >= 1 && sampling.factor <= SamplingGovernor::kFactorMax));
    REQUIRE(sampling.left_out.size() <= kSiteKindCount);
    REQUIRE(JobDecisionFrom(Encode(*read)));
  }
}

TEST_CASE("the ranks are asked soon when rank 0 wants something, rarely when nobody does, and never twice at once") {
  QuestionPace::Time now;
  QuestionPace pace;
  const std::optional<SamplingGovernor::Decision> lower = kProposals[4].decision, raise = kProposals[7].decision;
  pace.Collected(4, std::nullopt);
  CHECK_FALSE(pace.IsDue(now));
  pace.Collected(1, std::nullopt);
  CHECK(pace.IsDue(now));
  pace.Sent();
  pace.Collected(1000, lower);
  CHECK_FALSE(pace.IsDue(now));
  pace.Answered(now);
  pace.Collected(1000, lower);
  CHECK_FALSE(pace.IsDue(now + milliseconds(499)));
  now += milliseconds(500);
  CHECK(pace.IsDue(now));

  // A question without a decision comes again after twice as many steps, and, while rank 0 wants none, twice the time.
  pace.BeginAnew();
  auto answered = now - milliseconds(500);
  for (int64_t due = 5, round = 0; round < 8; ++round, due = std::min<int64_t>(2 * due, 64)) {
    const auto soonest = answered + milliseconds(500) * (int64_t{1} << std::min<int64_t>(round, 4));
    now += milliseconds(8000);
    pace.Collected(due - 1, std::nullopt);
    CHECK_FALSE(pace.IsDue(now));
    pace.Collected(1, std::nullopt);
    CHECK(pace.IsDue(now));
    CHECK_FALSE(pace.IsDue(soonest - milliseconds(1)));
    pace.Sent();
    pace.Answered(answered = now);
  }
  // But what rank 0 comes to want is asked at once, and so is the opposite.
  now += milliseconds(1000);
  for (const auto& wants : {lower, raise}) {
    pace.Collected(1, wants);
    CHECK(pace.IsDue(now));
    pace.Sent();
    pace.Answered(now);
    now += milliseconds(1000);
  }
  pace.Refused();
  pace.Collected(3, raise);
  CHECK_FALSE(pace.IsDue(now));
  pace.Collected(1, raise);
  CHECK(pace.IsDue(now));
}

}  // namespace
}  // namespace stepwatch::budget
