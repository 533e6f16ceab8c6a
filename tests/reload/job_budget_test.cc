// What the ranks of a job make of their wishes about a budget, in all combinations, and how they tell each other.
#include "controller/reload/job_budget.h"

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::reload {
namespace {

using Kind = BudgetWish::Kind;
using std::chrono::milliseconds;

const plan::Sampling kInForce{10, {SiteKind::kActv}};

BudgetWish Wish(bool lowers, plan::Sampling sampling, double percent) {
  return {Kind::kChange, {std::move(sampling), lowers, percent, percent / 2, {SiteKind::kGradReduced}}};
}
BudgetWish Of(Kind kind) {
  return {kind, {}};
}

// What a rank may say, about kInForce.
const std::vector<BudgetWish> kWishes = {
    Of(Kind::kUnheard),
    Of(Kind::kForeign),
    Of(Kind::kNone),
    Of(Kind::kStay),
    Wish(true, {20, {SiteKind::kActv}}, 3),
    Wish(true, {50, {SiteKind::kActv}}, 2),
    Wish(true, {15, {SiteKind::kActv, SiteKind::kGradReduced}}, 9),
    Wish(false, {4, {SiteKind::kActv}}, 0.3),
    Wish(false, {6, {SiteKind::kActv}}, 0.4),
    Wish(false, {30, {}}, 0.5),
};

void CheckCombined(const std::vector<BudgetWish>& wishes) {
  const std::optional<JobDecision> decision = Combine(wishes, kInForce);
  const auto any = [&](const auto& is) { return std::any_of(wishes.begin(), wishes.end(), is); };
  const bool lowers = any([](const BudgetWish& each) { return each.kind == Kind::kChange && each.decision.lowers; });
  const bool raises =
      any([](const BudgetWish& each) { return each.kind == Kind::kChange; }) && !lowers &&
      !any([](const BudgetWish& each) { return each.kind != Kind::kChange && each.kind != Kind::kNone; });
  REQUIRE(decision.has_value() == (lowers || raises));
  const bool is_foreign = any([](const BudgetWish& each) { return each.kind == Kind::kForeign; });
  const bool is_unheard = any([](const BudgetWish& each) { return each.kind == Kind::kUnheard; });
  REQUIRE(WhyNotDone(wishes, true).empty() == !is_foreign);
  REQUIRE(WhyNotDone(wishes, false).empty() == !(is_foreign || is_unheard));
  if (!decision) return;
  const BudgetWish& whose = wishes.at(static_cast<size_t>(decision->rank));
  REQUIRE(whose.kind == Kind::kChange);
  REQUIRE(decision->decision.lowers == lowers);
  REQUIRE(decision->decision.sampling != kInForce);
  REQUIRE(decision->decision.sampling.left_out == whose.decision.sampling.left_out);
  for (const BudgetWish& each : wishes) {
    if (each.kind != Kind::kChange || each.decision.lowers != lowers) continue;
    // The worst rank decides; nobody who wants the same kinds gets more than it wants.
    if (lowers) REQUIRE(whose.decision.percent >= each.decision.percent);
    if (each.decision.sampling.left_out == decision->decision.sampling.left_out)
      REQUIRE(decision->decision.sampling.factor >= each.decision.sampling.factor);
  }
}

TEST_CASE("one rank over its budget lowers all, and more is collected only if all ranks want it: all combinations") {
  const size_t count = kWishes.size();
  for (size_t i = 0; i < count * count * count; ++i)
    CheckCombined({kWishes[i % count], kWishes[i / count % count], kWishes[i / count / count]});
}

TEST_CASE("the worst rank's wish is taken, with the widest interval that the ranks want for the same kinds") {
  const auto lowered = Combine({kWishes[5], kWishes[4], Of(Kind::kUnheard)}, kInForce);
  REQUIRE(lowered);
  CHECK(lowered->rank == 1);
  CHECK(lowered->decision.sampling == plan::Sampling{50, {SiteKind::kActv}});
  CHECK(lowered->decision.percent == 3);
  CHECK(lowered->decision.percent_then == Approx(1.5 * 20 / 50));
  const auto raised = Combine({kWishes[7], kWishes[9], kWishes[8]}, kInForce);
  REQUIRE(raised);
  CHECK(raised->decision.sampling == plan::Sampling{6, {SiteKind::kActv}});
  CHECK_FALSE(Combine({}, kInForce));
}

TEST_CASE("questions, wishes and decisions read back as they were written") {
  for (const BudgetWish& wish : kWishes) {
    if (wish.kind == Kind::kUnheard) continue;  // nobody says that
    const BudgetWish read = BudgetWishFrom(Encode(wish));
    CHECK(read.kind == wish.kind);
    CHECK(Encode(read) == Encode(wish));
    if (wish.kind != Kind::kChange) continue;
    const auto decision = JobDecisionFrom(Encode(JobDecision{7, wish.decision}));
    REQUIRE(decision);
    CHECK(decision->rank == 7);
    CHECK(decision->decision.sampling == wish.decision.sampling);
    CHECK(decision->decision.percent == wish.decision.percent);
    CHECK(decision->decision.most_expensive == wish.decision.most_expensive);
  }
  const auto question = BudgetQuestionFrom(BudgetQuestionText("0af", kInForce));
  REQUIRE(question);
  CHECK(question->sha256 == "0af");
  CHECK(question->in_force == kInForce);
  // A decision is the same text in every build of this version of the agreement.
  CHECK(Encode(JobDecision{2, kWishes[4].decision}) == "2 lower 20 actv 3 1.5 grad_reduced\n");
  CHECK(BudgetQuestionText("0af", {1, {}}) == "budget 0af 1 -\n");
}

TEST_CASE("texts that no rank writes are no question, no wish and no decision") {
  for (const char* text : {"", "budget", "budget xyz 1 -\n", "budget 0af 0 -\n", "budget 0af 1001 -\n",
                           "budget 0af 1\n", "budget 0af 1 actv,actv\n", "budget 0af 1 cats\n", "{\"ask\":\"report\"}"})
    CHECK_FALSE(BudgetQuestionFrom(text));
  for (const char* text : {"", "maybe", "lower", "lower 2 - 1\n", "lower 2 - nan 1 -\n", "lower 2 - -1 1 -\n",
                           "lower 2 - inf 1 -\n", "lower -2 - 1 1 -\n", "raise 2 grad_reduced,actv 1 1 -\n"})
    CHECK(BudgetWishFrom(text).kind == Kind::kForeign);
  for (const char* text : {"", "-1 lower 2 - 1 1 -\n", "1 stay\n", "1 lower 99999999999999999999 - 1 1 -\n"})
    CHECK_FALSE(JobDecisionFrom(text));
}

TEST_CASE("texts with any byte changed are read as something valid, or as nothing") {
  std::mt19937 random(3);
  const std::string written = Encode(JobDecision{2, kWishes[6].decision});
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
  AskingPace::Time now;
  AskingPace pace;
  const std::optional<SamplingGovernor::Decision> lower = kWishes[4].decision, raise = kWishes[7].decision;
  pace.Collected(4, std::nullopt);
  CHECK_FALSE(pace.IsDue(now));
  pace.Collected(1, std::nullopt);
  CHECK(pace.IsDue(now));
  pace.Asked();
  pace.Collected(1000, lower);
  CHECK_FALSE(pace.IsDue(now));
  pace.Answered(now);
  pace.Collected(1000, lower);
  CHECK_FALSE(pace.IsDue(now + milliseconds(499)));
  now += milliseconds(500);
  CHECK(pace.IsDue(now));

  // What comes to nothing is asked again after twice as many, and, while rank 0 wants nothing, twice the time.
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
    pace.Asked();
    pace.Answered(answered = now);
  }
  // But what rank 0 comes to want is asked at once, and so is the opposite.
  now += milliseconds(1000);
  for (const auto& wants : {lower, raise}) {
    pace.Collected(1, wants);
    CHECK(pace.IsDue(now));
    pace.Asked();
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
}  // namespace stepwatch::reload
