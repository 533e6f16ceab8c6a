// Each kind of incident from lines to its opening, and what must raise nothing.

#include <cmath>
#include <limits>
#include <set>

#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

constexpr double kNanLoss = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("a run that trains, evaluates, saves itself and ends raises nothing") {
  Script script;
  script.Train(100).Wait(900, {}, RunPhase::kEval).Train(100).Event(CheckpointEvent{200}).Train(50);
  script.Event(EndEvent{EndReason::kOk});
  for (int64_t rank = 0; rank < 4; ++rank) script.Event(ProcessGoneEvent{}, rank);
  CHECK(OpenedIn(Replay(script.lines, 600)).empty());
}

TEST_CASE(
    "a loss that is NaN is reported once, with the rank that had it first, and resolved when it is finite again") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if ((step == 60 && rank == 2) || (step > 60 && step < 70)) beat->loss = beat->grad_norm = kNanLoss;
  };
  script.Train(120);
  const std::vector<Incident> changes = Replay(script.lines);
  const Incident incident = RequireOne(changes, IncidentKind::kLossNonfinite, {2});
  CHECK(incident.since_step == 59);
  CHECK(incident.t < 60 * script.step_seconds + 2);
  CHECK(IsResolved(changes, incident.id));
}

TEST_CASE("a loss scale that falls excuses a gradient that is infinite, and one that has reached its floor does not") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    beat->loss_scale = step < 60 ? 65536 : step < 61 ? 32768 : 16384;
    if (step == 60 || step == 61) beat->grad_norm = std::numeric_limits<double>::infinity();
  };
  CHECK(OpenedIn(Replay(script.Train(120).lines)).empty());

  Script stays;
  stays.change = [](int64_t step, int64_t, Beat* beat) {
    beat->loss_scale = 1;
    if (step >= 60) beat->grad_norm = kNanLoss;
  };
  RequireOne(Replay(stays.Train(120).lines), IncidentKind::kGradNonfinite);
}

TEST_CASE("a loss that jumps is a spike, one that climbs a divergence, and noise is neither") {
  Script jumps;
  jumps.change = [](int64_t step, int64_t, Beat* beat) { *beat->loss *= step >= 100 && step < 110 ? 3 : 1; };
  const std::vector<Incident> changes = Replay(jumps.Train(200).lines);
  const Incident spike = RequireOne(changes, IncidentKind::kLossSpike);
  CHECK(spike.since_step == 99);
  CHECK(IsResolved(changes, spike.id));

  Script climbs;
  climbs.change = [](int64_t step, int64_t, Beat* beat) {
    *beat->loss *= std::pow(1.01, static_cast<double>(std::max<int64_t>(0, step - 100)));
  };
  RequireOne(Replay(climbs.Train(300).lines), IncidentKind::kDivergence);
  CHECK(OpenedIn(Replay(Script().Train(2000).lines)).empty());
}

TEST_CASE("a silent rank whose peers wait is stuck within three steps and five seconds, and it alone is named") {
  Script script;
  script.Train(100);
  const double stood_still_at = script.t;
  script.Wait(60, {3});
  const Incident incident = RequireOne(Replay(script.lines), IncidentKind::kStuck, {3});
  CHECK(incident.since_step == 100);
  CHECK(incident.t - stood_still_at <= 3 * script.step_seconds + 5);
}

TEST_CASE("a stopped process is stuck though it reports, and resolved when it goes on") {
  Script script;
  script.Train(100).Event(ProcessStateEvent{'T'}, 1).Wait(30).Event(ProcessStateEvent{'S'}, 1).Train(40);
  const std::vector<Incident> changes = Replay(script.lines);
  const Incident incident = RequireOne(changes);
  CHECK(incident.ranks == std::vector<int64_t>{1});
  CHECK(incident.t <= 100 * script.step_seconds + 3 * script.step_seconds + 5.5);
  CHECK(IsResolved(changes, incident.id));
}

TEST_CASE("a pause protects until it expires, whatever beats report") {
  Script script;
  script.Train(100).Event(PauseEvent{1000.0}).Wait(900);
  CHECK(OpenedIn(Replay(script.lines)).empty());
  const std::vector<Incident> changes = Replay(script.lines, 600);
  RequireOne(changes, IncidentKind::kStuck);
}

TEST_CASE(
    "a process that is gone is reported within three seconds, and others that wait or fail after it are symptoms") {
  Script script;
  script.Train(100).Event(ProcessGoneEvent{}, 1);
  const double gone_at = script.t;
  script.Wait(5, {1})
      .Event(ExceptionEvent{"DistBackendError", "NCCL: connection reset by peer", ""}, 0)
      .Wait(200, {0, 1});
  const Incident incident = RequireOne(Replay(script.lines, 300), IncidentKind::kProcessLost, {1});
  CHECK(incident.t - gone_at <= 3);
}

TEST_CASE("a rank that was gone before its peers report that all is well is still lost") {
  Script script;
  script.Train(100).Event(ProcessGoneEvent{}, 1).Event(EndEvent{EndReason::kOk}, 0).Event(ProcessGoneEvent{}, 0);
  RequireOne(Replay(script.lines, 300), IncidentKind::kProcessLost, {1});

  Script asked;
  asked.Train(100);
  for (int64_t rank = 0; rank < 4; ++rank) asked.Event(SignalEvent{15}, rank);
  asked.Event(ProcessGoneEvent{}, 1).Event(EndEvent{EndReason::kOk}, 0).Event(ProcessGoneEvent{}, 0);
  CHECK(OpenedIn(Replay(asked.lines, 300)).empty());
}

TEST_CASE("an end by signal alone is no incident, an end in error without an exception is a lost process") {
  Script signal;
  signal.Train(50).Event(SignalEvent{15}, 0).Event(EndEvent{EndReason::kSignal});
  for (int64_t rank = 0; rank < 4; ++rank) signal.Event(ProcessGoneEvent{}, rank);
  CHECK(OpenedIn(Replay(signal.lines, 600)).empty());

  Script error;
  error.Train(50).Event(EndEvent{EndReason::kError});
  RequireOne(Replay(error.lines, 600), IncidentKind::kProcessLost);
}

TEST_CASE("a kill for want of memory names the process that goes, and kills of before are none") {
  Script script;
  script.Event(HostEvent{"", 7.0, 1.0}).Train(100).Event(HostEvent{"", 7.0, 1.0});
  CHECK(OpenedIn(Replay(script.lines)).empty());
  script.Event(HostEvent{"", 8.0, 60.0}).Event(ProcessGoneEvent{}, 2);
  RequireOne(Replay(script.lines, 300), IncidentKind::kOutOfMemory, {2});
}

TEST_CASE("a kill in a cgroup of the run has the memory of the cgroup before it") {
  const auto sample = [](double kills, double in_cgroup, double bytes) {
    return HostEvent{"h", kills, 1.0, in_cgroup, bytes, 1000.0};
  };
  Script script;
  script.Event(sample(0, 0, 500)).Train(100).Event(sample(0, 0, 990)).Event(sample(1, 1, 200));
  script.Event(ProcessGoneEvent{}, 2);
  const Incident incident = RequireOne(Replay(script.lines, 300), IncidentKind::kOutOfMemory);
  REQUIRE(incident.evidence.Find("where"));
  CHECK(std::get<std::string>(*incident.evidence.Find("where")) == "cgroup");
  CHECK(std::get<double>(*incident.evidence.Find("cgroup_bytes")) == 990);
  CHECK(std::get<double>(*incident.evidence.Find("cgroup_bytes_max")) == 1000);
}

TEST_CASE("a GPU fault is one of the hardware, once, and not what a sampler shows of before") {
  Script script;
  script.Event(GpuEvent{"GPU-1", "xid", 79}, 1).Train(50).Event(GpuEvent{"GPU-1", "xid", 79}, 1);
  script.Event(GpuEvent{"GPU-2", "xid", 0}, 2).Train(50).Event(GpuEvent{"GPU-2", "xid", 31}, 2).Train(10);
  CHECK(OpenedIn(Replay(script.lines)).empty());
  script.Event(GpuEvent{"GPU-2", "xid", 79}, 2).Train(10).Event(GpuEvent{"GPU-2", "xid", 79}, 2);
  RequireOne(Replay(script.lines), IncidentKind::kGpuFault, {2});
}

TEST_CASE("a checkpoint is overdue by the run's own interval, and the next one ends that") {
  Script script;
  for (int i = 0; i < 4; ++i) script.Train(50).Event(CheckpointEvent{script.step});
  CHECK(OpenedIn(Replay(script.lines)).empty());
  script.Train(80).Event(CheckpointEvent{script.step});
  const std::vector<Incident> changes = Replay(script.lines);
  const Incident overdue = RequireOne(changes, IncidentKind::kCheckpointOverdue);
  CHECK(overdue.since_step == 200);
  CHECK(IsResolved(changes, overdue.id));
}

TEST_CASE("a clock that is set forward or back passes no time") {
  for (const double seconds : {-7200.0, 7200.0}) {
    Script script;
    script.Train(100).Event(ClockStepEvent{seconds});
    script.t += seconds;
    script.Train(100);
    CHECK(OpenedIn(Replay(script.lines)).empty());
  }
}

TEST_CASE("two faults at once are two incidents") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step >= 100 && rank == 0) beat->loss = kNanLoss;
  };
  script.Train(101).Event(ProcessGoneEvent{}, 2).Wait(30, {2});
  std::set<IncidentKind> kinds;
  for (const Incident& incident : OpenedIn(Replay(script.lines))) kinds.insert(incident.kind);
  CHECK(kinds == std::set<IncidentKind>{IncidentKind::kLossNonfinite, IncidentKind::kProcessLost});
}

TEST_CASE("a restart resolves what training on shows to be over, and a second fault is a second incident") {
  Script script;
  script.Train(100).Event(ProcessGoneEvent{}, 2).Wait(30, {2}).Event(RestartEvent{});
  script.step = 50;
  script.Train(100).Event(ProcessGoneEvent{}, 3).Wait(30, {3});
  const std::vector<Incident> changes = Replay(script.lines);
  const std::vector<Incident> opened = OpenedIn(changes);
  REQUIRE(opened.size() == 2);
  CHECK(opened[0].id != opened[1].id);
  CHECK(IsResolved(changes, opened[0].id));
  CHECK_FALSE(IsResolved(changes, opened[1].id));
}

TEST_CASE("an incident that was open before a kill keeps its id, and is resolved under it") {
  Script script;
  script.Train(100).Event(ProcessGoneEvent{}, 2).Wait(30, {2});
  Observer before;
  for (const Line& line : script.lines) (void)before.Observe(line);
  REQUIRE(before.OpenIncidents().size() == 1);
  const Incident open = before.OpenIncidents().front();

  Observer after;
  after.Adopt(open);
  for (const Line& line : script.lines) after.Learn(line);
  after.EndLearning();
  CHECK(OpenedIn(after.AdvanceBy(10)).empty());
  script.lines.clear();
  script.Event(RestartEvent{}).Train(50);
  std::vector<Incident> changes;
  for (const Line& line : script.lines)
    for (Incident& change : after.Observe(line)) changes.push_back(std::move(change));
  CHECK(IsResolved(changes, open.id));
}

TEST_CASE("runs of months are learnt line by line, with the pace and the faults that they had") {
  Script script;
  script.Train(100).Event(ProcessGoneEvent{}, 2).Wait(30, {2});
  Observer observed, learnt;
  constexpr int kRuns = 3000;
  for (int i = 0; i < kRuns; ++i) {
    Line start = EventLine(-86400.0 * 30 * (kRuns - i) / kRuns, StartEvent{1, "host"});
    start.run = "old" + std::to_string(i);
    learnt.Learn(start);
  }
  for (const Line& line : script.lines) {
    (void)observed.Observe(line);
    learnt.Learn(line);
  }
  learnt.EndLearning();
  CHECK(learnt.Runs().size() == kRuns + 1);
  CHECK(learnt.Run("run")->step_seconds == observed.Run("run")->step_seconds);
  CHECK(learnt.Run("run")->step == observed.Run("run")->step);
  // The others have been silent since they were started.
  std::vector<Incident> open = learnt.OpenIncidents();
  std::erase_if(open, [](const Incident& each) { return each.run != "run"; });
  REQUIRE(open.size() == 1);
  CHECK(open.front().kind == observed.OpenIncidents().front().kind);
}

TEST_CASE("lines of before the time at which an observer begins are seen then, however many runs are of the past") {
  Observer observer;
  observer.SetEarliest(86400.0 * 30);
  for (int i = 0; i < 3000; ++i) {
    Line start = EventLine(864.0 * i, StartEvent{1, "host"});
    start.run = "old" + std::to_string(i);
    CHECK(observer.Observe(start).empty());
  }
  CHECK(observer.Runs().size() == 3000);
  CHECK(observer.t() == 86400.0 * 30);
}

TEST_CASE("beats that a job has kept from the minutes before an observer begins show how long its steps take") {
  Script script;
  script.t = 500;
  script.Train(20);
  Observer observer;
  observer.SetEarliest(400);
  for (const Line& line : script.lines) (void)observer.Observe(line);
  CHECK(observer.Run("run")->step_seconds == Approx(0.5));
}

TEST_CASE("a run of which only an incident was kept has begun with its first line, whatever the time") {
  Incident open;
  open.kind = IncidentKind::kLossNonfinite;
  open.run = "run";
  open.id = "1a2b3c4d5e6f";
  open.t = open.opened_t = 1.7e9;
  Observer observer;
  observer.Adopt(open);
  CHECK(OpenedIn(observer.Observe(EventLine(1.7e9, StartEvent{1, "host"}))).empty());
  CHECK(OpenedIn(observer.AdvanceBy(60)).empty());
}

}  // namespace
}  // namespace stepwatch::operations
