// The pulse and the beats of a real monitor.
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "controller/api/monitor_impl.h"
#include "controller/control_socket/pulse_client.h"
#include "src/json/json.h"
#include "stepwatch/phase_scope.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

std::vector<Json> Beats(const ControlSockets& sockets, const char* what) {
  std::vector<Json> found;
  const Json answer = sockets.Get("/v1/beats");
  for (const Json& line : answer["beats"])
    if (line.contains(what)) found.push_back(line[what]);
  return found;
}

TEST_CASE("a monitor that collects nothing leaves its steps in the pulse, and names no module") {
  const ControlSockets sockets;
  Job job(ConfigText(Off()));
  job.options.rank = 1;
  job.options.world_size = 4;
  job.Start();
  const auto view = control_socket::FetchPulse(sockets.Find().front().path);
  REQUIRE(view.status().ToString() == "ok");
  vocabulary::Pulse pulse = view.value().Read().value();
  CHECK(pulse.process == base::ThisProcess());
  CHECK(pulse.rank == 1);
  CHECK(pulse.world == 4);
  CHECK(pulse.step == -1);
  CHECK(pulse.phase.phase == Phase::kInit);
  CHECK(pulse.run_id == sockets.Status()["run_id"]);
  job.TrainSteps(5);
  pulse = view.value().Read().value();
  CHECK(pulse.step == 4);
  CHECK(pulse.phase.phase == Phase::kTrain);
  CHECK_FALSE(pulse.collecting);
  CHECK_FALSE(pulse.module.has_value());
  CHECK(pulse.end == vocabulary::PulseEnd::kRuns);
  job.Close();
  pulse = view.value().Read().value();
  CHECK(pulse.step == 4);
  CHECK(pulse.end == vocabulary::PulseEnd::kOk);
  REQUIRE(view.value().LastWords().size() == 1);
  CHECK(json::Parse(view.value().LastWords()[0].line).value()["event"] == Json({{"kind", "end"}, {"reason", "ok"}}));
}

TEST_CASE("steps, numbers and phases of a monitor are its beats") {
  const ControlSockets sockets;
  StartedJob job(ConfigText(Off()));
  job.monitor->Report({{"loss", 2.5}});
  job.TrainStep();
  {
    const PhaseScope evaluating(job.monitor.get(), Phase::kEval);
    const PhaseScope saving(job.monitor.get(), Phase::kCheckpoint);
    job.monitor->ReportCheckpoint(1);
  }
  job.monitor->Report({{"loss", 2.25}});
  job.TrainStep();
  const std::vector<Json> beats = Beats(sockets, "beat");
  std::vector<std::string> phases;
  for (const Json& beat : beats)
    if (!beat.contains("loss")) phases.push_back(beat["phase"]);
  CHECK(phases == std::vector<std::string>{"train", "eval", "checkpoint", "eval", "train"});
  CHECK(beats.back()["step"] == 1);
  CHECK(beats.back()["loss"] == 2.25);
  CHECK(beats.back()["step_seconds"].get<double>() > 0);
  const std::vector<Json> events = Beats(sockets, "event");
  REQUIRE(events.size() == 2);
  CHECK(events[0]["kind"] == "start");
  CHECK(events[1] == Json({{"kind", "checkpoint"}, {"step", 1}}));
}

TEST_CASE("a scope that ends after its outer phase has expired leaves the run in training") {
  const ControlSockets sockets;
  StartedJob job(ConfigText(Off()));
  (void)job.monitor->SetPhase(Phase::kPaused, std::chrono::milliseconds(1));
  {
    const PhaseScope evaluating(job.monitor.get(), Phase::kEval);
    const auto begun = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() < begun + std::chrono::milliseconds(5)) {
    }
  }
  const auto view = control_socket::FetchPulse(sockets.Find().front().path);
  CHECK(view.value().Read().value().phase.phase == Phase::kTrain);
  // A pause always has an end.
  (void)job.monitor->SetPhase(Phase::kPaused);
  CHECK(view.value().Read().value().phase.expires_ms > 0);
}

TEST_CASE("the end of a run after an exception is an error") {
  const ControlSockets sockets;
  StartedJob job(ConfigText(Off()));
  job.monitor->ReportException({"ValueError", "bad", "frames", "f00d", true});
  const std::vector<Json> events = Beats(sockets, "event");
  CHECK(events.back()["type"] == "ValueError");
  const auto view = control_socket::FetchPulse(sockets.Find().front().path);
  job.Close();
  CHECK(view.value().Read().value().end == vocabulary::PulseEnd::kError);
}

TEST_CASE("a monitor without shared memory reports it once, and trains and answers without a pulse") {
  const ControlSockets sockets;
  Job job(ConfigText(Off()));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Status created = job.Create();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(created.ok());
  REQUIRE(job.Attach().ok());
  REQUIRE(job.WaitFor(EventKind::kNote));
  job.monitor->Report({{"loss", 2.5}});
  job.TrainSteps(3);
  CHECK(control_socket::FetchPulse(sockets.Find().front().path).status().code() == StatusCode::kNotFound);
  CHECK(Beats(sockets, "beat").back()["step"] == 2);
  int reports = 0;
  for (const Event& event : job.Events()) reports += Has(event.message, "no pulse") ? 1 : 0;
  CHECK(reports == 1);
}

TEST_CASE("without its control socket a monitor keeps its pulse, and no report piles up") {
  Job job(ConfigText(Off()));
  job.options.control_socket = false;
  job.Start();
  job.monitor->Report({{"loss", 2.5}});
  job.monitor->ReportException({"ValueError", "bad", "", "", true});
  job.monitor->ReportEnd(RunEnd::kError);
  job.monitor->ReportSignal(10);
  job.TrainSteps(3);
  CHECK(job.monitor->SetPhase(Phase::kEval).phase == Phase::kTrain);
  (void)job.monitor->Close(std::chrono::seconds(10));
  job.monitor->Report({{"loss", 2.5}});
  CHECK(job.monitor->SetPhase(Phase::kEval).phase == Phase::kInit);
}

}  // namespace
}  // namespace stepwatch::testing
