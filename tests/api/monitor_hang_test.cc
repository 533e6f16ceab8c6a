// The config or the output lies on a mount that hangs: training, the loop and Close go on.
#include <chrono>
#include <filesystem>
#include <string>

#include "tests/api/job.h"
#include "tests/watch/hanging_files.h"

namespace stepwatch::testing {
namespace {

using namespace std::chrono_literals;

// A job whose monitor has a file system that can hang.
class HangingJob : public Job {
 public:
  using Call = HangingFiles::Call;

  explicit HangingJob(Call call = Call::kOpen, const std::string& config = ConfigText({.collect_times = 1000}))
      : Job(config),
        files(HangingFiles::For(call == Call::kList || call == Call::kMakeDirectory ? options.output_dir : config_path,
                                call)) {}
  ~HangingJob() {
    files.LetGo();
    files.AwaitHeld(0);
    Close();
  }
  void Start() { Job::Start(files); }
  // The next look hangs, in the midst of the window.
  void HangInALook() {
    TrainStep();
    files.Hang();
    Save(ConfigText({.collect_times = 2000}));
    CHECK(monitor->Refresh(50ms) == RefreshOutcome::kTimedOut);
    files.AwaitHeld(1);
  }

  // The window's only step is over, and its write-back hangs.
  void HangInAWriteBack() {
    files.Hang();
    TrainSteps(2);
    files.AwaitHeld(1);
  }
  // While Close waits for its time to run out.
  void CheckCloseKeepsItsTime(const std::string& why) {
    const auto begin = std::chrono::steady_clock::now();
    const Status closed = monitor->Close(1s);
    CHECK(closed.code() == StatusCode::kTimedOut);
    CHECK(closed.message().find(why) == 0);
    CHECK(std::chrono::steady_clock::now() - begin < 20s);
    CHECK(files.held() > 0);
    monitor.reset();
  }

  HangingFiles& files;
};

TEST_CASE("while a look hangs the plan in force goes on, the loop serves the program, and the edit is applied later") {
  HangingJob job;
  job.Start();
  job.HangInALook();
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 2);
  CHECK(job.files.held() == 1);
  job.files.LetGo();
  CHECK(job.TrainUntil([&] { return job.monitor->GetStatus().plan_id == 3; }));
}

const std::string kOneStep = ConfigText({.collect_times = 1});

TEST_CASE("while a write-back hangs the loop serves the program, and it is done when the file system answers") {
  HangingJob job(HangingFiles::Call::kAccess, kOneStep);
  job.Start();
  job.HangInAWriteBack();
  CHECK(job.WaitFor(EventKind::kDrained));
  CHECK(job.monitor->Amend({}).ok());
  CHECK(job.monitor->GetStatus().state == RunState::kDraining);
  CHECK(job.monitor->Flush(10s));
  CHECK(Contents(job.config_path) == kOneStep);
  job.files.LetGo();
  CHECK(job.WaitFor(EventKind::kWroteBack));
  CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 1}));
}

TEST_CASE("an edit that is saved while a write-back hangs stays, and is applied") {
  HangingJob job(HangingFiles::Call::kAccess, kOneStep);
  job.Start();
  job.HangInAWriteBack();
  const std::string edit = ConfigText({.collect_times = 5});
  job.Save(edit);
  CHECK(job.monitor->Refresh(50ms) == RefreshOutcome::kTimedOut);
  job.files.LetGo();
  CHECK(job.WaitFor(EventKind::kArmed, 2));
  CHECK(Contents(job.config_path) == edit);
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 2);
}

TEST_CASE("Close keeps its timeout while a look or a write-back hangs, and nothing is used after it") {
  const bool is_look = GENERATE(true, false);
  HangingJob job(is_look ? HangingFiles::Call::kOpen : HangingFiles::Call::kAccess, kOneStep);
  job.Start();
  is_look ? job.HangInALook() : job.HangInAWriteBack();
  job.CheckCloseKeepsItsTime("the file system hangs");
}

TEST_CASE("an edit is applied while the file system of the output hangs") {
  HangingJob job(HangingFiles::Call::kMakeDirectory);
  job.files.Hang();
  job.Start();
  job.TrainSteps(2);
  job.files.AwaitHeld(2);  // the manifest and the rows
  CHECK(job.Edit(ConfigText({.collect_times = 2000})) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 2);
  job.CheckCloseKeepsItsTime("a sink hangs");
}

TEST_CASE("rows wait for the directory that append_output names, and the loop does not") {
  HangingJob job(HangingFiles::Call::kList, ConfigText({.dynamic_on = false}));
  const std::string older = job.options.output_dir + "/Dec03_21-34-40-rank0-0123abcd";
  std::filesystem::create_directories(older);
  job.Start();
  job.files.Hang();
  job.Save(ConfigText({.collect_times = 2}, R"(, "append_output": ["Dec03_21-34-40", "Dec03_21-34-41"])"));
  CHECK(job.monitor->Refresh(50ms) == RefreshOutcome::kTimedOut);
  job.files.AwaitHeld(1);
  job.TrainSteps(3);
  CHECK(job.monitor->GetStatus().output_dir.empty());
  job.files.LetGo();
  CHECK(job.WaitFor(EventKind::kDrained));
  CHECK(job.monitor->GetStatus().output_dir == older);
  job.output_dir = older;
  CHECK(job.Steps("grad_reduced") == Steps{1, 2});
}

}  // namespace
}  // namespace stepwatch::testing
