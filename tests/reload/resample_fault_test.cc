// The ranks have agreed on another sampling, and this rank runs out of memory when it is to follow: it follows later.
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "controller/agree/messages.h"
#include "controller/budget/job_budget.h"
#include "src/base/sha256.h"
#include "tests/failing_memory.h"
#include "tests/reload/process_without_threads.h"

namespace stepwatch::reload {
namespace {

// The store of a job whose rank 0 has proposed a config, without a vote: whoever reads it does it.
class OneProposal final : public Store {
 public:
  OneProposal(const std::string& sha256, const std::string& text) {
    agree::Proposal proposal;
    proposal.number = proposal.at_step = 1;
    proposal.change = {agree::Mode::kBestEffort, 1, sha256, text, agree::Deed::kEdit};
    values_["stepwatch/abc/p/1"] = Encode(proposal);
    values_["stepwatch/latest"] = Encode(agree::Latest{"abc", 1, "0123456789abcdef", false, 0});
  }
  void Set(const std::string&, const std::string& value, Done done) override { done(std::optional(value)); }
  void SetOnce(const std::string&, const std::string& value, Done done) override { done(std::optional(value)); }
  void Get(const std::string& key, Done done) override {
    const auto found = values_.find(key);
    done(found == values_.end() ? std::nullopt : std::optional(found->second));
  }

 private:
  std::map<std::string, std::string> values_;
};

const std::string kText =
    testing::ConfigText({.collect_times = 50}, R"(, "format": "api", "stepwatch": {"budget": {"percent": 1}})");

// Rank 1 of two, in whose window the step 1 runs.
class Follower {
 public:
  Follower() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!process.plane.plans.plan_waiting()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      process.loop.restart();
      process.loop.run_one_for(std::chrono::milliseconds(10));
    }
    EndSteps(1);
    REQUIRE(plan() == 1);
  }

  // The ranks have agreed on it. True: the n-th allocation has failed, and it was not taken; a negative one never does.
  bool Take(int64_t factor, PlanId plan_id, int64_t at_step, int64_t n) {
    const budget::SamplingGovernor::Decision decision{{factor, {}}, true, 9, 1, {SiteKind::kGradReduced}};
    const agree::Change change{agree::Mode::kStrict, plan_id, sha256_, Encode(budget::JobDecision{0, decision}),
                               agree::Deed::kSampling};
    has_failed = false;
    if (n >= 0) testing::memory_failure = {testing::Failure::kOnce, n + 1, false};
    bool throws = false;
    try {
      process.reloader.resampler().OnSamplingAgreed(change, at_step);
    } catch (const std::bad_alloc&) {
      throws = true;
    }
    has_failed = std::exchange(testing::memory_failure, {}).has_failed;
    return throws;
  }
  void EndSteps(int count) {
    for (int i = 0; i < count; ++i) process.plane.plans.EndStep();
  }
  PlanId plan() const { return process.plane.plans.plan_id(); }

  bool has_failed = false;  // the allocation of the last Take

 private:
  const std::string sha256_ = base::Sha256Hex(kText);

 public:
  Process process{kText, [this](Options* options) {
                    options->store = std::make_shared<OneProposal>(sha256_, kText);
                    options->rank = 1;
                    options->world_size = 2;
                    options->store_poll = std::chrono::milliseconds(1);
                  }};
};

TEST_CASE("whatever allocation fails when a rank is to go over to another sampling, it does, once and at the step") {
  int64_t n = 0, thrown = 0;
  for (bool fails = true; fails; ++n) {
    INFO("allocation " << n << " fails");
    Follower rank;
    const bool throws = rank.Take(5, 2, 3, n);
    fails = rank.has_failed;
    CHECK(rank.process.plane.plans.plan_waiting() == !throws);
    thrown += throws ? 1 : 0;
    // The commit is tried again, or there is news of a step before.
    if (throws && n % 2 == 0) CHECK_FALSE(rank.Take(5, 2, 3, -1));
    rank.process.reloader.OnBoard();
    if (throws && n % 2 != 0) CHECK_FALSE(rank.Take(5, 2, 3, -1));
    REQUIRE(rank.process.plane.plans.plan_waiting());
    rank.EndSteps(1);
    CHECK(rank.plan() == 1);
    rank.EndSteps(1);
    CHECK(rank.plan() == 2);
    CHECK_FALSE(rank.process.plane.plans.plan_waiting());
    rank.process.Post(drain::PlanBegan{2, 3});
    const status::ReloadStatus status = rank.process.reloader.View().status;
    REQUIRE(status.budget);
    CHECK(status.budget->factor == 5);
    CHECK(status.budget->decisions == 1);
    CHECK(rank.process.Count(EventKind::kSuperseded) == 0);
    CHECK(rank.process.Count(EventKind::kNote) <= 1);

    CHECK_FALSE(rank.Take(7, 3, 5, -1));
    rank.EndSteps(2);
    CHECK(rank.plan() == 3);
  }
  CHECK(n > 50);
  CHECK(thrown > 20);
}

TEST_CASE("a sampling that waits for its step begins in a pause, and the window stays paused") {
  Follower rank;
  REQUIRE_FALSE(rank.Take(5, 2, 4, -1));
  rank.process.plane.plans.RequestPause(1, true);
  rank.EndSteps(1);
  CHECK(rank.process.plane.plans.paused());
  rank.EndSteps(2);
  CHECK(rank.plan() == 2);
  CHECK(rank.process.plane.plans.paused());
}

TEST_CASE("a sampling for another config than that of the window is no matter here") {
  Follower rank;
  const agree::Change change{agree::Mode::kStrict, 2, "abc", "0 lower 5 - 9 1 grad_reduced\n", agree::Deed::kSampling};
  rank.process.reloader.resampler().OnSamplingAgreed(change, 3);
  CHECK_FALSE(rank.process.plane.plans.plan_waiting());
}

}  // namespace
}  // namespace stepwatch::reload
