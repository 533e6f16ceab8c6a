#include "controller/cli/remote_edit.h"

#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::cli {
namespace {
using Goal = EditWait::Goal;
using End = EditWait::End;
using Verb = EditWait::Verb;

const Json kArmed = {{"sha256", "aa"}, {"taken", "armed"}, {"plan_id", 3}};
const Json kArmedStatus = {{"file_sha256", "aa"}, {"armed", {{"plan_id", 3}, {"config_sha256", "aa"}}}};

Json InForce(uint64_t plan_id, const Json& written_plan_id) {
  return {{"file_sha256", "aa"},
          {"written_plan_id", written_plan_id},
          {"plan", {{"plan_id", plan_id}, {"config_sha256", "aa"}, {"rows_per_step", 10}}}};
}

TEST_CASE("a change has been applied when rows of its first step are written, not before") {
  EditWait wait(Goal::kApplied, kArmed);
  CHECK(wait.OnStatus(kArmedStatus).empty());
  CHECK(wait.OnEvent("applied", {{"plan", 3}, {"step", 41}}) ==
        std::vector<std::string>{"plan 3 applied: first step 41"});
  CHECK(wait.OnStatus(InForce(3, nullptr)).empty());
  CHECK(wait.OnStatus(InForce(3, 2)).empty());
  CHECK_FALSE(wait.end());
  CHECK(wait.OnStatus(InForce(3, 3)).size() == 1);
  CHECK(wait.end() == End::kReached);
  CHECK(wait.facts() == Json({{"applied_step", 41}}));
}

TEST_CASE("the first step is known, also when the status is ahead of the events") {
  EditWait wait(Goal::kApplied, kArmed);
  (void)wait.OnStatus(InForce(3, 3));
  CHECK_FALSE(wait.end());
  (void)wait.OnEvent("applied", {{"plan", 3}, {"step", 41}});
  (void)wait.OnStatus(InForce(3, 3));
  CHECK(wait.end() == End::kReached);
  CHECK(wait.facts() == Json({{"applied_step", 41}}));
}

TEST_CASE("a beginning before the verb, or in a gap of the events, is not waited for") {
  EditWait running(Goal::kApplied, {{"sha256", "aa"}, {"taken", "running"}, {"plan_id", 3}});
  (void)running.OnStatus(InForce(3, 3));
  CHECK(running.end() == End::kReached);
  EditWait gap(Goal::kApplied, kArmed);
  (void)gap.OnEvent("gap", {{"missed", 7}});
  (void)gap.OnStatus(InForce(3, 3));
  CHECK(gap.end() == End::kReached);
}

TEST_CASE("a window that is over when it is first asked about has been applied as well") {
  EditWait wait(Goal::kApplied, kArmed);
  (void)wait.OnEvent("drained", {{"plan", 3}, {"ledger", {{"produced", 7}, {"written", 7}}}});
  (void)wait.OnStatus({{"file_sha256", "written back"}});
  CHECK(wait.end() == End::kReached);
}

TEST_CASE("a wait for the end reports the rows and goes on") {
  EditWait wait(Goal::kDrained, kArmed);
  (void)wait.OnStatus(InForce(3, 3));
  CHECK_FALSE(wait.end());
  (void)wait.OnEvent("drained", {{"plan", 2}});  // of another plan
  (void)wait.OnStatus(InForce(3, 3));
  CHECK_FALSE(wait.end());
  (void)wait.OnEvent("drained", {{"plan", 3}, {"collected_steps", 5}, {"ledger", {{"produced", 9}, {"written", 9}}}});
  wait.OnGone();
  CHECK(wait.end() == End::kReached);
  CHECK(wait.facts()["ledger"]["written"] == 9);
}

TEST_CASE("a refusal, and something newer, end the wait") {
  EditWait refused(Goal::kApplied, {{"sha256", "aa"}, {"taken", "pending"}});
  (void)refused.OnEvent("refused", {{"sha256", "bb"}, {"message", "another text"}});
  CHECK_FALSE(refused.end());
  (void)refused.OnEvent("refused", {{"sha256", "aa"}, {"message", "rank 1 cannot"}});
  CHECK(refused.end() == End::kFailed);
  CHECK(refused.why() == "refused: rank 1 cannot");

  EditWait superseded(Goal::kApplied, kArmed);
  (void)superseded.OnEvent("superseded", {{"plan", 3}, {"message", "newer"}});
  (void)superseded.OnStatus({{"file_sha256", "bb"}});
  CHECK(superseded.end() == End::kFailed);

  EditWait unseen(Goal::kApplied, {{"sha256", "aa"}, {"taken", "pending"}});
  (void)unseen.OnStatus({{"file_sha256", "aa"}});
  CHECK_FALSE(unseen.end());
  (void)unseen.OnStatus({{"file_sha256", "bb"}});
  CHECK(unseen.end() == End::kFailed);
}

TEST_CASE("a plan that gets another number is followed") {
  EditWait wait(Goal::kApplied, kArmed);
  (void)wait.OnEvent("superseded", {{"plan", 3}});
  (void)wait.OnStatus(InForce(4, nullptr));
  CHECK_FALSE(wait.end());
  CHECK(wait.plan_id() == 4);
  (void)wait.OnEvent("applied", {{"plan", 4}, {"step", 9}});
  (void)wait.OnStatus(InForce(4, 4));
  CHECK(wait.end() == End::kReached);
}

TEST_CASE("ranks that do not agree propose the edit again, and the wait goes on") {
  EditWait wait(Goal::kApplied, kArmed);
  (void)wait.OnEvent("aborted", {{"plan", 3}, {"message", "rank 1 was ahead"}});
  CHECK_FALSE(wait.end());
  CHECK(wait.is_aborted());
  (void)wait.OnEvent("applied", {{"plan", 3}, {"step", 9}});
  CHECK_FALSE(wait.is_aborted());
}

TEST_CASE("a rank that writes no rows has applied a plan when it has collected a step") {
  EditWait wait(Goal::kApplied, kArmed);
  Json status = InForce(3, nullptr);
  status["plan"]["rows_per_step"] = 0;
  status["collected"] = 0;
  (void)wait.OnStatus(status);
  CHECK_FALSE(wait.end());
  status["collected"] = 1;
  (void)wait.OnEvent("applied", {{"plan", 3}, {"step", 9}});
  (void)wait.OnStatus(status);
  CHECK(wait.end() == End::kReached);
}

TEST_CASE("a stop is over when the plan is drained, or nothing runs") {
  EditWait stops(Goal::kDrained, {{"sha256", "aa"}, {"taken", "stopping"}, {"plan_id", 3}});
  (void)stops.OnStatus({{"state", "IDLE"}});
  CHECK_FALSE(stops.end());
  (void)stops.OnEvent("drained", {{"plan", 3}});
  (void)stops.OnStatus({{"state", "IDLE"}});
  CHECK(stops.end() == End::kReached);
  EditWait nothing(Goal::kDrained, {{"sha256", "aa"}, {"taken", "off"}, {"plan_id", nullptr}});
  (void)nothing.OnStatus({{"state", "DRAINING"}});
  CHECK_FALSE(nothing.end());
  (void)nothing.OnStatus({{"state", "IDLE"}});
  CHECK(nothing.end() == End::kReached);
}

TEST_CASE("a plan is stopped when it is out of force, before its rows are written") {
  const Json stopping = {{"sha256", "aa"}, {"taken", "stopping"}, {"plan_id", 3}};
  EditWait by_event(Goal::kStopped, stopping, Verb::kStop);
  (void)by_event.OnStatus({{"state", "COLLECTING"}});
  (void)by_event.OnEvent("finished", {{"plan", 2}});
  (void)by_event.OnStatus({{"state", "COLLECTING"}});
  CHECK_FALSE(by_event.end());
  (void)by_event.OnEvent("finished", {{"plan", 3}});
  (void)by_event.OnStatus({{"state", "ARMED"}});  // a newer edit was saved since
  CHECK(by_event.end() == End::kReached);
  EditWait by_status(Goal::kStopped, stopping, Verb::kStop);
  (void)by_status.OnStatus({{"state", "DRAINING"}});
  CHECK(by_status.end() == End::kReached);
  EditWait gone(Goal::kStopped, stopping, Verb::kStop);
  (void)gone.OnEvent("finished", {{"plan", 3}});
  gone.OnGone();
  CHECK(gone.end() == End::kReached);
  CHECK(EditWait(Goal::kStopped, {{"sha256", "aa"}, {"taken", "off"}}, Verb::kStop).end() == End::kReached);
  CHECK(EditWait(Goal::kStopped, {{"sha256", "aa"}, {"taken", "superseded"}}, Verb::kStop).end() == End::kFailed);
}

TEST_CASE("a stop on which the ranks have not agreed yet is waited for until they have stopped") {
  const Json pending = {{"sha256", "aa"}, {"taken", "pending"}, {"plan_id", nullptr}};
  EditWait stopped(Goal::kStopped, pending, Verb::kStop), drained(Goal::kDrained, pending, Verb::kStop);
  for (EditWait* wait : {&stopped, &drained}) {
    (void)wait->OnStatus({{"state", "COLLECTING"}, {"file_sha256", "aa"}});
    CHECK_FALSE(wait->end());
    (void)wait->OnStatus({{"state", "DRAINING"}, {"file_sha256", "aa"}});
    CHECK(wait->end().has_value() == (wait == &stopped));
    (void)wait->OnStatus({{"state", "IDLE"}, {"file_sha256", "aa"}});
    CHECK(wait->end() == End::kReached);
  }
}

TEST_CASE("answers of another release do no harm") {
  EditWait wait(Goal::kDrained, Json::object());
  (void)wait.OnEvent("drained", {{"plan", "three"}, {"ledger", 7}});
  (void)wait.OnStatus({{"plan", 3}, {"armed", nullptr}, {"file_sha256", 4}});
  SUCCEED();
}

}  // namespace
}  // namespace stepwatch::cli
