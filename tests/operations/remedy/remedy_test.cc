#include "operations/remedy/remedy.h"

#include <random>

#include "tests/catch.h"
#include "tests/random_seed.h"

namespace stepwatch::operations::remedy {
namespace {

// A store on a disk, and deeds that end when the test says so. Both outlive a kill of the process.
struct World final : Deeds {
  std::map<std::string, std::string> disk, waiting;
  bool is_writable = true;
  std::optional<RunPhase> phase = RunPhase::kTrain;
  std::vector<std::string> started, returned, reported;
  std::vector<std::function<void(Ended)>> ends;

  void Start(const Action& action, const Rule&, std::function<void(Ended)> then) override {
    // The start is on the disk already.
    CHECK(disk.at(action.id).find("\"running\"") != std::string::npos);
    started.push_back(action.id);
    ends.push_back(std::move(then));
  }
  void RollBack(const Action& action, const Rule&, std::function<void(Ended)> then) override {
    returned.push_back(action.id);
    ends.push_back(std::move(then));
  }
  void EndAll(bool ok) {
    for (const auto& end : std::exchange(ends, {})) end({ok, ok ? "" : "exit code 1", "", ""});
  }
  void Write() {
    if (!is_writable) return;
    for (auto& [id, text] : waiting) disk[id] = text;
    waiting.clear();
  }
  RemedyCallbacks Callbacks() {
    RemedyCallbacks callbacks;
    callbacks.store = [this](const std::string& id, std::string text) { waiting[id] = std::move(text); };
    callbacks.flush = [this](std::function<void(bool)> then) {
      Write();
      then(is_writable);
    };
    callbacks.phase = [this](const std::string&) { return phase; };
    callbacks.report = [this](const Action& action) {
      reported.push_back(action.id + " " + std::string(NameOf(action.state)));
    };
    callbacks.deeds = this;
    return callbacks;
  }
};

Policy DrainPolicy() {
  Policy policy;
  policy.mode = Mode::kAct;
  policy.programs = {{"drain", {"/bin/drain", "{node}"}, 60, true}, {"resume", {"/bin/resume", "{node}"}, 60, false}};
  Rule rule;
  rule.name = "drain";
  rule.match.kind = "gpu_fault";
  rule.type = DeedType::kProgram;
  rule.program = "drain";
  rule.undo = "resume";
  policy.rules = {rule};
  return policy;
}

Trigger Fault(const std::string& id, const std::string& run = "r") {
  Trigger trigger;
  trigger.id = id;
  trigger.kind = "gpu_fault";
  trigger.run = run;
  trigger.host = "h";
  return trigger;
}

ActionState StateOf(const Remedy& remedy, const std::string& id) {
  for (const Action& each : remedy.List(false, 1000))
    if (each.id == id) return each.state;
  FAIL("no action " << id);
  return ActionState::kNew;
}

TEST_CASE("a trigger leads to a deed, its end verifies it, and the way back follows after a while") {
  World world;
  Remedy remedy(world.Callbacks());
  remedy.Apply(DrainPolicy());
  remedy.Take(Fault("i1"), 0);
  remedy.Tick(1);
  CHECK(world.started == std::vector<std::string>{"drain:i1"});
  world.EndAll(true);
  CHECK(StateOf(remedy, "drain:i1") == ActionState::kVerifying);
  remedy.TakeEnd("i1", 10);
  CHECK(StateOf(remedy, "drain:i1") == ActionState::kDone);
  remedy.Tick(60);
  CHECK(world.returned.empty());
  remedy.Tick(70);
  CHECK(world.returned == std::vector<std::string>{"drain:i1"});
  world.EndAll(true);
  CHECK(world.reported == std::vector<std::string>{"drain:i1 done", "drain:i1 rolled_back"});
}

TEST_CASE("a storm of alerts leads to one action of a rule") {
  World world;
  Remedy remedy(world.Callbacks());
  remedy.Apply(DrainPolicy());
  for (int i = 0; i < 10000; ++i) remedy.Take(Fault(i % 2 == 0 ? "i" : "i" + std::to_string(i)), i * 0.001);
  remedy.Tick(11);
  CHECK(world.started.size() == 1);
  CHECK(remedy.List(false, 20000).size() == 1);
}

TEST_CASE("while the store cannot be written no deed starts") {
  World world;
  world.is_writable = false;
  Remedy remedy(world.Callbacks());
  remedy.Apply(DrainPolicy());
  remedy.Take(Fault("i1"), 0);
  remedy.Tick(1);
  CHECK(world.started.empty());
  CHECK(StateOf(remedy, "drain:i1") == ActionState::kFailed);
  CHECK(world.reported == std::vector<std::string>{"drain:i1 failed"});
}

TEST_CASE("in shadow mode nothing starts, and each action is recorded") {
  World world;
  Remedy remedy(world.Callbacks());
  Policy policy = DrainPolicy();
  policy.mode = Mode::kShadow;
  remedy.Apply(policy);
  remedy.Take(Fault("i1"), 0);
  remedy.Tick(1);
  CHECK(world.started.empty());
  CHECK(StateOf(remedy, "drain:i1") == ActionState::kShadowed);
}

TEST_CASE("an approval starts an action, and a second one is refused") {
  World world;
  Remedy remedy(world.Callbacks());
  Policy policy = DrainPolicy();
  policy.rules.front().approval = true;
  remedy.Apply(policy);
  remedy.Take(Fault("i1"), 0);
  remedy.Tick(1);
  CHECK(world.started.empty());
  CHECK(remedy.List(true, 10).size() == 1);
  CHECK(remedy.Approve("drain:i1", "ada", "go", 2).ok());
  CHECK(remedy.Approve("drain:i1", "ada", "go", 2).message() == "the action is approved, and waits for no approval");
  CHECK(remedy.Approve("other", "ada", "", 2).code() == StatusCode::kNotFound);
  CHECK_FALSE(remedy.Reject("drain:i1", "bob", "", 2).ok());
  remedy.Tick(3);
  CHECK(world.started.size() == 1);
}

TEST_CASE("an action whose rule has left the policy does not start") {
  World world;
  Remedy remedy(world.Callbacks());
  Policy policy = DrainPolicy();
  policy.rules.front().approval = true;
  remedy.Apply(policy);
  remedy.Take(Fault("i1"), 0);
  policy.rules.clear();
  remedy.Apply(policy);
  CHECK(remedy.Approve("drain:i1", "ada", "", 1).ok());
  remedy.Tick(2);
  CHECK(world.started.empty());
  CHECK(StateOf(remedy, "drain:i1") == ActionState::kFailed);
}

TEST_CASE("whenever the process is killed, no deed starts twice, and an unknown end is reported as such") {
  std::mt19937_64 random(test::RandomSeed());
  for (int round = 0; round < 3000; ++round) {
    World world;
    auto remedy = std::make_unique<Remedy>(world.Callbacks());
    Policy policy = DrainPolicy();
    policy.rules.front().approval = random() % 2 == 0;
    policy.rules.front().cooldown_seconds = 0;
    policy.rules.front().per_day_max = 1000;
    remedy->Apply(policy);
    double now = 0;
    for (int i = 0; i < 40; ++i) {
      now += static_cast<double>(random() % 100);
      const std::string incident = "i" + std::to_string(random() % 3);
      switch (random() % 8) {
        case 0: remedy->Take(Fault(incident), now); break;
        case 1: remedy->TakeEnd(incident, now); break;
        case 2: (void)remedy->Approve("drain:" + incident, "ada", "", now); break;
        case 3: (void)remedy->Reject("drain:" + incident, "ada", "", now); break;
        case 4: world.EndAll(random() % 2 == 0); break;
        case 5: world.Write(); break;
        case 6: {  // a kill: what waits for the disk is lost, and answers of deeds come no more
          world.waiting.clear();
          world.ends.clear();
          const bool was_running = std::any_of(world.disk.begin(), world.disk.end(), [](const auto& row) {
            return row.second.find("\"state\":\"running\"") != std::string::npos;
          });
          remedy = std::make_unique<Remedy>(world.Callbacks());
          remedy->Apply(policy);
          const size_t reports = world.reported.size();
          remedy->Restore(world.disk, now);
          if (was_running) REQUIRE(world.reported.size() > reports);
          break;
        }
        default: remedy->Tick(now);
      }
    }
    std::sort(world.started.begin(), world.started.end());
    REQUIRE(std::adjacent_find(world.started.begin(), world.started.end()) == world.started.end());
  }
}

}  // namespace
}  // namespace stepwatch::operations::remedy
