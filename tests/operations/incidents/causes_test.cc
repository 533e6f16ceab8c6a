// One cause and its symptoms, and causes that follow one another.

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "operations/runs/virtual_clock.h"
#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

constexpr double kLostLoss = std::numeric_limits<double>::quiet_NaN();

std::multiset<IncidentKind> KindsIn(const std::vector<Incident>& changes) {
  std::multiset<IncidentKind> kinds;
  for (const Incident& incident : OpenedIn(changes)) kinds.insert(incident.kind);
  return kinds;
}

TEST_CASE("a loss that is no number long after a learning rate that differs is a fault of its own, and the reverse") {
  const auto kinds_with = [](int64_t lr_step, int64_t nan_step) {
    Script script;
    script.change = [=](int64_t step, int64_t rank, Beat* beat) {
      if (step >= lr_step && rank == 3) beat->lr = 2e-4;
      if (step >= nan_step) beat->loss = kLostLoss;
    };
    return KindsIn(Replay(script.Train(300).lines));
  };
  const std::multiset<IncidentKind> both = {IncidentKind::kLossNonfinite, IncidentKind::kRankDisagreement};
  CHECK(kinds_with(100, 220) == both);
  CHECK(kinds_with(220, 100) == both);
}

TEST_CASE("a training that blows up stage by stage is one incident") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    const auto since = static_cast<double>(std::max<int64_t>(0, step - 120));
    *beat->grad_norm *= step >= 120 ? 40 : 1;
    *beat->loss *= std::pow(1.02, since);
    if (step >= 220) beat->loss = kLostLoss;
  };
  CHECK(OpenedIn(Replay(script.Train(260).lines)).size() == 1);
}

TEST_CASE("a symptom that outlives its cause keeps the incident open") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step >= 120 && step < 126) *beat->grad_norm *= 40;
    if (step >= 121 && rank == 2) beat->loss = kLostLoss;
  };
  const std::vector<Incident> changes = Replay(script.Train(250).lines);
  CHECK_FALSE(IsResolved(changes, RequireOne(changes).id));
}

TEST_CASE("one rank that becomes slow long after the whole run has is a straggler of its own") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step > 320 && rank == 1) *beat->step_seconds *= 2;
  };
  CHECK(KindsIn(Replay(script.Train(120).Train(200, 1.6).Train(200, 3.2).lines)).count(IncidentKind::kStraggler) == 1);
}

TEST_CASE("the ranks of a host that is lost are all named, those of a world that goes after one are not") {
  const auto ranks_of = [](int64_t gone) {
    Script script;
    script.Train(100);
    for (int64_t rank = 0; rank < gone; ++rank) {
      script.t += 0.15;
      script.Event(ProcessGoneEvent{}, 3 - rank);
    }
    const std::vector<Incident> changes = Replay(script.lines, 60);
    REQUIRE(OpenedIn(changes).size() == 1);
    return changes.back().ranks;
  };
  CHECK(ranks_of(3) == std::vector<int64_t>{3, 2, 1});
  CHECK(ranks_of(4) == std::vector<int64_t>{3});
}

TEST_CASE("a process that goes right before a restart is reported, one reported right after it is not") {
  Script before;
  before.Train(100).Event(ProcessGoneEvent{}, 2);
  before.t += 0.3;
  before.Event(RestartEvent{}).Train(50);
  const std::vector<Incident> changes = Replay(before.lines);
  CHECK(KindsIn(changes) == std::multiset<IncidentKind>{IncidentKind::kProcessLost});
  CHECK(IsResolved(changes, changes.front().id));

  Script after;
  after.Train(100).Event(RestartEvent{});
  for (int64_t rank = 0; rank < 4; ++rank) after.Event(ProcessGoneEvent{}, rank);
  CHECK(OpenedIn(Replay(after.Wait(10).Train(100).lines)).empty());
}

TEST_CASE("a peer that gives up after its collective has waited replaces no cause") {
  Script script;
  script.Train(100).Event(ExceptionEvent{"KeyError", "'text'", "stack"}, 2).Event(ProcessGoneEvent{}, 2);
  script.Wait(602, {2}).Event(ExceptionEvent{"DistBackendError", "NCCL watchdog: timeout", ""}, 0);
  const std::vector<Incident> changes = Replay(script.lines, 60);
  REQUIRE(OpenedIn(changes).size() == 1);
  CHECK(changes.back().ranks == std::vector<int64_t>{2});
  CHECK(std::get<std::string>(*changes.back().evidence.Find("type")) == "KeyError");
}

TEST_CASE("a loss of a process is over when the others have trained on for long, and another is reported") {
  Script script;
  script.Train(100).Event(ProcessGoneEvent{}, 2);
  script.world = 2;
  script.lines.push_back(EventLine(script.t, ProcessGoneEvent{}, 3));
  script.Train(100).Event(ProcessGoneEvent{}, 1).Wait(20, {1});
  const std::vector<Incident> changes = Replay(script.lines);
  CHECK(KindsIn(changes).count(IncidentKind::kProcessLost) == 2);
  CHECK(IsResolved(changes, changes.front().id));
}

TEST_CASE("steps that sparse beats report after a failure were finished before it: its end is no other incident") {
  Script script;
  script.step_seconds = 1;
  script.Train(20);
  script.lines.erase(script.lines.begin() + 1, script.lines.end() - 4);  // of each rank the last beat
  script.t += 20;
  script.Event(ExceptionEvent{"torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 1.00 GiB", ""}, 3);
  for (const int64_t rank : {3, 0, 1, 2}) {
    script.t += 1;
    script.lines.push_back(BeatLine(script.t, rank, StepBeat(40)));
    if (rank != 3) script.Event(ExceptionEvent{"RuntimeError", "Connection reset by peer", ""}, rank);
  }
  script.t += 5;
  script.Event(EndEvent{EndReason::kError});
  script.t += 3;
  for (const int64_t rank : {0, 1, 2, 3}) script.Event(ProcessGoneEvent{}, rank);
  CHECK(KindsIn(Replay(script.lines, 60)) == std::multiset<IncidentKind>{IncidentKind::kOutOfMemory});
}

TEST_CASE("an exception is over with the first beat that reports some steps since") {
  Script script;
  script.step_seconds = 10;
  script.change = [](int64_t step, int64_t, Beat* beat) { beat->step = step * 60; };
  script.Train(20).Event(ExceptionEvent{"ValueError", "bad sample 17", ""}, 1);
  const double failed_t = script.t;
  script.Train(3);
  const std::vector<Incident> changes = Replay(script.lines);
  REQUIRE(changes.size() == 2);
  CHECK(changes.back().state == IncidentState::kResolved);
  CHECK(changes.back().t - failed_t <= 2 * script.step_seconds + 0.1);
}

TEST_CASE("an exception that is caught and comes back each second is one incident") {
  Script script;
  script.Train(60);
  for (int i = 0; i < 20; ++i)
    script.Event(ExceptionEvent{"OSError", "no sample " + std::to_string(i), ""}, 1).Train(2);
  const std::vector<Incident> changes = Replay(script.Train(60).lines);
  CHECK(IsResolved(changes, RequireOne(changes).id));
}

TEST_CASE("the same fault of all GPUs of a host is one incident with all their ranks, one much later another") {
  Script script;
  script.Train(200);
  for (int64_t rank = 0; rank < 4; ++rank) script.Event(GpuEvent{"GPU-" + std::to_string(rank), "xid", 74}, rank);
  CHECK(OpenedIn(Replay(script.lines)).size() == 1);
  CHECK(Replay(script.lines).back().ranks == std::vector<int64_t>{0, 1, 2, 3});
  script.Train(200).Event(GpuEvent{"GPU-1", "xid", 79}, 1);
  CHECK(OpenedIn(Replay(script.lines)).size() == 2);
}

TEST_CASE("a clock that is set forward passes no time though differences are rounded and lines out of order") {
  for (const double early : {4.5e-13, 0.01}) {
    VirtualClock clock;
    clock.See(1899.507);
    clock.Set(1899.507 + 3600 - early, 3600);
    CHECK(clock.now() < 1900);
  }
}

TEST_CASE("a sample of a host that names no run concerns every run") {
  Observer observer;
  for (const char* run : {"a", "b"}) {
    Line line = EventLine(0, HostEvent{"h", 0.0, 1.0});
    line.run = run;
    (void)observer.Observe(line);
  }
  Line kill = EventLine(1, HostEvent{"h", 1.0, 1.0});
  kill.run.clear();
  (void)observer.Observe(kill);
  CHECK(OpenedIn(observer.AdvanceTo(10)).size() == 2);
}

TEST_CASE("a beat of before a restart that comes after it does not keep an incident open") {
  Script script;
  script.world = 2;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    if (step > 80 && step <= 100) beat->loss = std::numeric_limits<double>::quiet_NaN();
  };
  script.Train(100).Event(RestartEvent{2, "host"});
  Beat late = StepBeat(100);
  late.loss = std::numeric_limits<double>::quiet_NaN();
  script.lines.push_back(BeatLine(script.t + 0.1, 1, late));
  script.step = 60;
  script.t += 10;
  script.change = [](int64_t, int64_t, Beat*) {};
  const std::vector<Incident> changes = Replay(script.Train(60).lines);
  CHECK(IsResolved(changes, RequireOne(changes).id));
}

TEST_CASE("a rank that loads its checkpoint after a restart does not train yet") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    if (step > 80) beat->loss = std::numeric_limits<double>::quiet_NaN();
  };
  script.Train(90).Event(RestartEvent{4, "host"});
  script.step = 60;
  const std::string id = OpenedIn(Replay(script.lines)).at(0).id;
  script.change = [](int64_t, int64_t, Beat*) {};
  CHECK_FALSE(IsResolved(Replay(script.Wait(20, {}, RunPhase::kInit).lines), id));
  CHECK(IsResolved(Replay(script.Train(5).lines), id));
}

TEST_CASE("a run that goes back to an earlier step without a word of it is over what was before") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    if (step > 80) beat->loss = std::numeric_limits<double>::quiet_NaN();
  };
  script.Train(90);
  script.step = 60;
  script.change = [](int64_t, int64_t, Beat*) {};
  const std::vector<Incident> changes = Replay(script.Train(100).lines);
  CHECK(IsResolved(changes, RequireOne(changes).id));
}

TEST_CASE("the cause of a failure is named, whichever of its lines comes first") {
  struct Failure {
    const char* name;
    std::function<void(Script&)> add_lines;
    IncidentKind kind;
    std::vector<int64_t> ranks;
  };
  const ExceptionEvent about_peers{"RuntimeError", "NCCL error: remote process exited", ""};
  const ExceptionEvent bad_sample{"ValueError", "bad sample 17", "stack"};
  const auto worker = [](const char* end) {
    return ExceptionEvent{"RuntimeError", std::string("DataLoader worker (pid 4711) ") + end, ""};
  };
  const HostEvent kill{"", 1.0, 1.0};
  const auto end = [](Script& script) {
    script.Event(EndEvent{EndReason::kError});
    for (int64_t rank = 0; rank < 4; ++rank) script.Event(ProcessGoneEvent{}, rank);
  };
  const EndEvent error{EndReason::kError};
  const Failure failures[] = {
      {"an exception about peers, then the end of the run",
       [&](Script& script) { end(script.Event(about_peers, 2)); },
       IncidentKind::kException,
       {2}},
      {"an exception about peers, then the end of its process and of the run",
       [&](Script& script) { end(script.Event(about_peers, 2).Event(ProcessGoneEvent{}, 2)); },
       IncidentKind::kException,
       {2}},
      {"exceptions of two ranks",
       [&](Script& script) { end(script.Event(bad_sample, 3).Event(bad_sample, 0)); },
       IncidentKind::kException,
       {3}},
      {"an exception about peers, then the end of another process",
       [&](Script& script) { script.Event(about_peers, 2).Event(ProcessGoneEvent{}, 1); },
       IncidentKind::kProcessLost,
       {1}},
      {"an exception about peers, then a dead loader",
       [&](Script& script) { script.Event(about_peers, 0).Event(worker("exited unexpectedly"), 3).Event(error); },
       IncidentKind::kException,
       {3}},
      {"a kill for want of memory, an exception about peers, then the loader that it hit",
       [&](Script& script) {
         script.Event(kill).Event(about_peers, 2).Event(worker("is killed by signal: Killed."), 3);
       },
       IncidentKind::kOutOfMemory,
       {3}},
      {"a kill for want of memory, the end of the run, then of a process",
       [&](Script& script) { script.Event(kill).Event(error).Event(ProcessGoneEvent{}, 1); },
       IncidentKind::kOutOfMemory,
       {}},
  };
  for (const Failure& failure : failures) {
    INFO(failure.name);
    Script script;
    script.Event(HostEvent{"", 0.0, 1.0}).Train(60);
    failure.add_lines(script);
    RequireOne(Replay(script.lines, 600), failure.kind, failure.ranks);
  }
}

}  // namespace
}  // namespace stepwatch::operations
