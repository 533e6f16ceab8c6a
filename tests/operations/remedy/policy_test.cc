#include "operations/remedy/policy.h"

#include "src/config/config_text.h"
#include "tests/catch.h"

namespace stepwatch::operations::remedy {
namespace {

// The policy of a text, or its refusal.
Result<Policy> Read(const std::string& text) {
  Result<config::JsonDocument> document = config::ReadConfigText(text);
  REQUIRE(document.ok());
  config::Notes notes(document.value());
  Policy policy;
  const Status status = ReadPolicy({document.value().root, "remedy"}, notes, policy);
  if (!status.ok()) return status;
  return policy;
}

std::string RefusalOf(const std::string& text) {
  const Result<Policy> policy = Read(text);
  REQUIRE_FALSE(policy.ok());
  return policy.status().ToString();
}

TEST_CASE("an empty policy is a shadow without rules") {
  const auto policy = Read("{}");
  REQUIRE(policy.ok());
  CHECK(policy.value() == Policy());
  CHECK(policy.value().mode == Mode::kShadow);
}

TEST_CASE("every key of a policy is read into its place, whatever their order") {
  const auto read = Read(R"({
    "rules": [
      {"name": "closer", "kind": "loss_nonfinite", "severity": ["critical"], "run": "pre*", "owner": "llm",
       "labels": {"team": "a*"}, "after_seconds": 5, "phases": ["train", "eval"], "ranks_max": 4,
       "action": "escalate", "collect": {"xy_distribution": true, "targets": {"a": {}}}, "steps": 30,
       "approval": true, "per_day_max": 2, "cooldown_seconds": 60, "verify": false, "verify_seconds": 7,
       "expires_seconds": 8},
      {"name": "drain", "kind": "gpu_fault", "action": "program", "program": "drain", "undo": "resume"}],
    "programs": [{"name": "drain", "argv": ["/bin/d", "{node}"], "seconds": 9, "takes_node": true},
                 {"name": "resume", "argv": ["/bin/r"]}],
    "mode": "act", "nodes_max": 3})");
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  const Policy& policy = read.value();
  CHECK(policy.mode == Mode::kAct);
  CHECK(policy.nodes_max == 3);
  CHECK(policy.programs.front() == Program{"drain", {"/bin/d", "{node}"}, 9, true});
  Rule closer;
  closer.name = "closer";
  closer.match = {"loss_nonfinite", {Severity::kCritical}, "pre*", "llm", {{"team", "a*"}}};
  closer.after_seconds = 5;
  closer.phases = {RunPhase::kTrain, RunPhase::kEval};
  closer.ranks_max = 4;
  closer.type = DeedType::kEscalate;
  closer.collect = R"({"xy_distribution":true,"targets":{"a":{}}})";
  closer.steps = 30;
  closer.approval = true;
  closer.per_day_max = 2;
  closer.cooldown_seconds = 60;
  closer.verifies = false;
  closer.verify_seconds = 7;
  closer.expires_seconds = 8;
  CHECK(policy.rules.front() == closer);
  CHECK(policy.rules.back().undo == "resume");
}

TEST_CASE("a policy with a mistake is refused with its line and column") {
  struct Case {
    const char* text;
    const char* place;
    const char* accepted;
  };
  const Case cases[] = {
      {"{\n \"mode\": \"on\"}", "line 2, column 10", R"("off", "shadow" or "act")"},
      {R"({"rules": {}})", "column 11", "a list of rules"},
      {R"({"rules": [{"kind": "stuck", "action": "notify"}]})", "column 12", "an object with the key \"name\""},
      {R"({"rules": [{"name": "a", "action": "notify"}]})", "column 12", "a rule with \"kind\" or \"labels\""},
      {R"({"rules": [{"name": "a", "kind": "x", "action": "restart"}]})", "column 49", "\"escalate\""},
      {R"({"rules": [{"name": "a", "kind": "x", "action": "command"}]})", "column 12", "the key \"command\""},
      {R"({"rules": [{"name": "a", "kind": "x", "action": "program", "program": "p"}]})", "column 71",
       "which is empty"},
      {R"({"rules": [{"name": "a b", "kind": "x", "action": "notify"}]})", "column 21", "letters, digits"},
      {R"({"rules": [{"name": "a", "kind": "x", "action": "notify"}, {"name": "a", "kind": "x", "action": "notify"}]})",
       "column 69", "a name that no other element has"},
      {R"({"programs": [{"name": "p", "argv": ["sh", "-c", "x"]}]})", "column 37", "absolute path"},
      {R"({"programs": [{"name": "p", "argv": ["/{node}"]}]})", "column 37", "absolute path"},
      {R"({"rules": [{"name": "a", "kind": "x", "action": "power_limit", "power_percent": 5}]})", "column 81",
       "10 to 100 percent"},
      {R"({"rules": [{"name": "a", "kinds": "x", "action": "notify"}]})", "column 26", "did you mean \"kind\""},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    const std::string refusal = RefusalOf(each.text);
    INFO(refusal);
    CHECK(refusal.find(each.place) != std::string::npos);
    CHECK(refusal.find(each.accepted) != std::string::npos);
  }
}

TEST_CASE("a command that changes the training needs approval unless its rule says otherwise") {
  Rule rule;
  rule.type = DeedType::kCommand;
  for (const char* name : {"skip_batch", "scale_learning_rate", "roll_back", "stop", "of_the_script"}) {
    rule.command = name;
    CHECK(NeedsApproval(rule));
  }
  rule.approval = false;
  CHECK_FALSE(NeedsApproval(rule));
  rule.approval.reset();
  rule.command = "checkpoint";
  CHECK_FALSE(NeedsApproval(rule));
}

TEST_CASE("a trigger matches if all that is given matches") {
  Trigger trigger;
  trigger.kind = "GpuHot";
  trigger.run = "pretrain-7";
  trigger.labels = {{"team", "llm"}, {"instance", "h:1"}};
  CHECK(MatchesTrigger({"Gpu*", {}, "", "", {{"team", "l*"}}}, trigger));
  CHECK_FALSE(MatchesTrigger({"Gpu*", {}, "", "", {{"rack", "*"}}}, trigger));
  CHECK_FALSE(MatchesTrigger({"Gpu*", {Severity::kCritical}, "", "", {}}, trigger));
  CHECK_FALSE(MatchesTrigger({"", {}, "fine*", "", {}}, trigger));
}

}  // namespace
}  // namespace stepwatch::operations::remedy
