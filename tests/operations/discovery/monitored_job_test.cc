// With the real monitor in a process of its own, its control socket and its pulse.
#include <signal.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "operations/discovery/discovery.h"
#include "operations/discovery/pulse_source.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/operations/child.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;
using testing::Child;

struct JobWatch {
  explicit JobWatch(const std::string& directory) {
    DiscoveryOptions options;
    options.directories = {directory};
    options.host = "h1";
    options.collects_stacks = false;
    Discovery::Dependencies dependencies;
    dependencies.open_pulse = OpenSocketPulse;
    discovery = std::make_unique<Discovery>(
        loop, options, [this](const Line& line) { lines.push_back(line); }, std::move(dependencies));
    discovery->Start();
  }
  std::vector<Line> Of(const std::string& kind) const {
    std::vector<Line> found;
    std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
                 [&](const Line& line) { return KindOf(line) == kind; });
    return found;
  }
  bool Sees(const std::string& kind) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (Of(kind).empty() && std::chrono::steady_clock::now() < deadline) loop.run_for(5ms);
    return !Of(kind).empty();
  }

  boost::asio::io_context loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{loop.get_executor()};
  std::vector<Line> lines;
  std::unique_ptr<Discovery> discovery;
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
  CHECK(testing::Eventually([&] {
    watch.loop.run_for(5ms);
    return has_loss();
  }));
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
