// The config lies on a mount that hangs: training, the loop and Close go on.
#include <chrono>
#include <memory>
#include <string>

#include "controller/api/monitor_impl.h"
#include "tests/api/job.h"
#include "tests/watch/hanging_files.h"

namespace stepwatch::testing {
namespace {

using namespace std::chrono_literals;

// A job whose monitor looks at its config through a file system that can hang.
class HangingJob : public Job {
 public:
  HangingJob() : Job(ConfigText({.collect_times = 1000})) {}
  ~HangingJob() {
    files.LetGo();
    files.AwaitHeld(0);
    Close();
  }
  void Start() {
    auto created = Monitor::Impl::CreateMonitor(options, files);
    REQUIRE(created.ok());
    monitor = std::move(created).value();
    REQUIRE(Attach().ok());
  }
  // The next look hangs, in the midst of the window.
  void HangInALook() {
    TrainStep();
    files.Hang();
    Save(ConfigText({.collect_times = 2000}));
    CHECK(monitor->Refresh(50ms) == RefreshOutcome::kTimedOut);
    files.AwaitHeld(1);
  }

  HangingFiles& files = HangingFiles::For(config_path);
};

TEST_CASE("while a look hangs the plan in force goes on and the loop serves the program") {
  HangingJob job;
  job.Start();
  job.HangInALook();
  const PlanId before = job.monitor->GetStatus().plan_id;
  Amendment amendment;
  amendment.ops = std::vector<std::string>{"max"};
  CHECK(job.monitor->Amend(amendment).ok());
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id > before);
  CHECK(job.files.held() == 1);
}

TEST_CASE("an edit whose look hung is taken over when the file system answers") {
  HangingJob job;
  job.Start();
  job.HangInALook();
  job.files.LetGo();
  CHECK(Eventually([&] {
    job.TrainStep();
    return job.monitor->GetStatus().plan_id == 2;
  }));
}

TEST_CASE("Close keeps its timeout while a look hangs, and nothing is used after it") {
  HangingJob job;
  job.Start();
  job.HangInALook();
  const auto begin = std::chrono::steady_clock::now();
  const Status closed = job.monitor->Close(1s);
  CHECK(closed.code() == StatusCode::kTimedOut);
  CHECK(closed.message().find("the file system hangs") == 0);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(job.files.held() == 1);
  job.monitor.reset();
  job.files.LetGo();
  job.files.AwaitHeld(0);
}

}  // namespace
}  // namespace stepwatch::testing
