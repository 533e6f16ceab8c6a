// With the real monitor in a process of its own, its control socket and its pulse.
#include <signal.h>

#include <algorithm>
#include <thread>

#include "operations/discovery/pulse_source.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/operations/child.h"
#include "tests/operations/discovery/watch.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;
using testing::Child;

DiscoveryOptions WithoutStacks() {
  DiscoveryOptions settings;
  settings.collects_stacks = false;
  return settings;
}

struct JobWatch : testing::Watch {
  explicit JobWatch(const std::string& directory)
      : Watch(directory, {.open_pulse = OpenSocketPulse}, WithoutStacks()) {}
  bool Sees(const std::string& kind) {
    return Until([&] { return !Of(kind).empty(); });
  }
};

// Trains until it is killed, or makes so many steps and closes.
std::function<void()> Training(int steps) {
  return [steps] {
    testing::Job job(testing::ConfigText(testing::Off()));
    job.Start();
    for (int step = 0; steps == 0 || step < steps; ++step) {
      job.monitor->Report({{"loss", 2.5}});
      job.TrainStep();
      std::this_thread::sleep_for(20ms);
    }
    std::this_thread::sleep_for(3s);  // found, at the latest now
    job.Close();
  };
}

TEST_CASE("a monitored process is found, reported step by step, stopped and killed") {
  const testing::ControlSockets sockets;
  const Child child(Training(0));
  JobWatch watch(sockets.runtime);
  REQUIRE(watch.Sees("start"));
  REQUIRE(watch.Sees("beat"));
  const auto has_loss = [&] {
    const auto beats = watch.Of("beat");
    return std::any_of(beats.begin(), beats.end(),
                       [](const Line& line) { return std::get<Beat>(line.what).loss == 2.5; });
  };
  CHECK(watch.Until(has_loss));
  child.Send(SIGSTOP);
  REQUIRE(watch.Sees("process_state"));
  child.Send(SIGKILL);
  REQUIRE(watch.Sees("process_gone"));
  CHECK(watch.Of("end").empty());
  CHECK(watch.Of("start").size() == 1);
  // In the order of steps, as the control socket has them.
  int64_t last = -1;
  for (const Line& line : watch.Of("beat")) {
    const auto step = std::get<Beat>(line.what).step.value_or(-1);
    CHECK(step >= last);
    last = step;
  }
}

TEST_CASE("a run that ends is reported as ended before its process is gone") {
  const testing::ControlSockets sockets;
  const Child child(Training(10));
  JobWatch watch(sockets.runtime);
  REQUIRE(watch.Sees("start"));
  REQUIRE(watch.Sees("process_gone"));
  REQUIRE(watch.Of("end").size() == 1);
  CHECK(std::get<EndEvent>(std::get<Event>(watch.Of("end")[0].what)).reason == EndReason::kOk);
  const std::vector<Line> beats = watch.Of("beat");
  CHECK(std::get<Beat>(beats.back().what).step == 9);
  CHECK(KindOf(watch.lines.back()) == "process_gone");
}

}  // namespace
}  // namespace stepwatch::operations
