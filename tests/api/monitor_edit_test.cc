// Edits while the job runs: what is refused, what Refresh says, what people are told.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("Refresh says what it found") {
  Job job(ConfigText(Off()));
  job.Start();
  CHECK(job.Refresh() == RefreshOutcome::kUnchanged);
  CHECK(job.Edit(ConfigText({.collect_times = 5})) == RefreshOutcome::kArmed);
  CHECK(job.Refresh() == RefreshOutcome::kUnchanged);
  job.TrainSteps(2);
  CHECK(job.Edit("{\"collect_times\": }") == RefreshOutcome::kRefused);
  CHECK(job.Refresh() == RefreshOutcome::kUnchanged);
  CHECK(job.Edit(ConfigText({.collect_times = 5})) == RefreshOutcome::kUnchanged);
  CHECK(job.Count(EventKind::kRestored) == 1);
  std::filesystem::remove(job.config_path);
  CHECK(job.Refresh() == RefreshOutcome::kMissing);
  CHECK(job.Edit(ConfigText({.collect_times = 5})) == RefreshOutcome::kUnchanged);
  CHECK(job.Count(EventKind::kRestored) == 2);
  CHECK(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  job.TrainStep();
  job.Settle();
  CHECK(job.Edit(ConfigText({.dynamic_on = false, .collect_times = 4})) == RefreshOutcome::kUnchanged);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2});
}

TEST_CASE("Refresh in static mode, before Attach and after Close finds nothing to do") {
  Job job(ConfigText(Off()));
  job.options.dynamic = false;
  REQUIRE(job.Create().ok());
  CHECK(job.Refresh() == RefreshOutcome::kUnchanged);
  REQUIRE(job.Attach().ok());
  CHECK(job.Edit(ConfigText({.collect_times = 9})) == RefreshOutcome::kUnchanged);
  REQUIRE(job.monitor->Close(std::chrono::seconds(10)).ok());
  CHECK(job.Refresh() == RefreshOutcome::kUnchanged);
}

TEST_CASE("a refused edit says where and why, once, and names the plan that stays") {
  Job job(ConfigText({.collect_times = 9}));
  job.Start();
  job.TrainSteps(2);
  CHECK(job.Edit("{\n  \"dynamic_on\": true,\n  \"wg_distribution\": \"yes\"\n}\n") == RefreshOutcome::kRefused);
  job.Refresh();
  const auto refused = job.Events(EventKind::kRefused);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].place.line == 3);
  CHECK(refused[0].place.column > 0);
  CHECK(refused[0].place.key == "wg_distribution");
  CHECK(refused[0].message.find("the running plan stays") != std::string::npos);
  CHECK(refused[0].sha256.size() == 64);
  CHECK(job.monitor->GetStatus().plan_id == 1);
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3});
}

TEST_CASE("an unknown key is told as a warning, and the edit holds") {
  Job job(ConfigText(Off()));
  job.Start();
  CHECK(job.Edit(ConfigText({}, ", \"step_intervall\": 3")) == RefreshOutcome::kArmed);
  REQUIRE(job.Count(EventKind::kWarning) == 1);
  CHECK(job.Events(EventKind::kWarning)[0].message.find("step_interval") != std::string::npos);
}

TEST_CASE("a field that has no effect is said once by name, not with every edit") {
  Job job(ConfigText(Off()));
  job.Start();
  job.Edit(ConfigText({.collect_times = 5}, ", \"ur_distribution\": true"));
  job.TrainStep();
  job.Edit(ConfigText({.collect_times = 6}, ", \"ur_distribution\": true"));
  CHECK(job.Count(EventKind::kWarning) == 1);
}

TEST_CASE("an armed plan that is replaced before its step is told as superseded") {
  Job job(ConfigText(Off()));
  job.Start();
  job.Edit(ConfigText({.collect_times = 1}));
  job.Edit(ConfigText({.collect_times = 1, .gradients = false}));
  REQUIRE(job.Count(EventKind::kSuperseded) == 1);
  CHECK(job.Events(EventKind::kSuperseded)[0].plan_id == 1);
  job.TrainSteps(3);
  job.Close();
  CHECK(job.Steps("grad_reduced").empty());
  CHECK(job.Steps("param_origin") == Steps{1});
  CHECK(job.Count(EventKind::kApplied) == 1);
}

TEST_CASE("the state follows the life of a plan") {
  Job job(ConfigText(Off()));
  REQUIRE(job.Create().ok());
  CHECK(job.monitor->GetStatus().state == RunState::kIdle);
  REQUIRE(job.Attach().ok());
  CHECK(job.monitor->GetStatus().state == RunState::kIdle);
  job.Edit(ConfigText({.collect_times = 1}));
  CHECK(job.monitor->GetStatus().state == RunState::kArmed);
  CHECK(job.monitor->GetStatus().plan_id == 0);
  job.TrainStep();
  const MonitorStatus collecting = job.monitor->GetStatus();
  CHECK(collecting.state == RunState::kCollecting);
  CHECK(collecting.plan_id == 1);
  CHECK(collecting.collecting_step);
  CHECK(collecting.step == 1);
  CHECK(collecting.collected == 0);
  CHECK_FALSE(collecting.output_dir.empty());
  job.TrainStep();
  job.Settle();
  const MonitorStatus idle = job.monitor->GetStatus();
  CHECK(idle.state == RunState::kIdle);
  CHECK(idle.plan_id == 0);
  CHECK(idle.collected == 0);
}

TEST_CASE("an armed plan that the watcher sees withdrawn leaves the state idle") {
  Job job(ConfigText(Off()));
  job.options.look_interval = std::chrono::milliseconds(5);
  job.options.quiet_time = std::chrono::milliseconds(1);
  job.Start();
  job.Edit(ConfigText({.collect_times = 3}));  // kUnchanged if the watcher was faster
  REQUIRE(job.Count(EventKind::kArmed) == 1);
  job.Save(ConfigText(Off()));
  REQUIRE(job.WaitFor(EventKind::kStopping));
  job.TrainSteps(2);
  CHECK(Eventually([&] { return job.monitor->GetStatus().state == RunState::kIdle; }));
  CHECK(job.Count(EventKind::kApplied) == 0);
}

TEST_CASE("an edit needs no Refresh: the watcher finds it, and the plan collects exactly what it should") {
  for (bool inotify : {true, false}) {
    INFO("inotify " << inotify);
    Job job(ConfigText(Off()));
    job.options.use_inotify = inotify;
    job.options.look_interval = std::chrono::milliseconds(inotify ? 1000 : 20);
    job.options.quiet_time = std::chrono::milliseconds(20);
    job.Start();
    job.TrainSteps(3);
    job.Save(ConfigText({.collect_times = 4}));
    REQUIRE(Eventually([&] {
      job.TrainStep();
      return job.Count(EventKind::kWroteBack) == 1;
    }));
    job.Close();
    const int64_t first = job.Events(EventKind::kApplied).at(0).step;
    CHECK(job.Steps("grad_reduced") == Steps{first, first + 1, first + 2, first + 3});
    CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 4}));
  }
}

TEST_CASE("our own write-back is no edit, and the true text saved again is one") {
  Job job(ConfigText({.collect_times = 1}));
  job.options.look_interval = std::chrono::milliseconds(5);
  job.options.quiet_time = std::chrono::milliseconds(1);
  job.Start();
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  const size_t seen = job.Count(EventKind::kSeen);
  CHECK(job.Refresh() == RefreshOutcome::kUnchanged);
  CHECK(job.Count(EventKind::kSeen) == seen);
  job.Edit(ConfigText({.collect_times = 1}));  // kUnchanged if the watcher was faster
  CHECK(job.Count(EventKind::kArmed) == 2);
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 3});
}

TEST_CASE("an edit saved in the moment of the write-back is kept, and runs") {
  Job job(ConfigText({.collect_times = 1}));
  job.Start();
  job.TrainStep();
  job.Save(ConfigText({.collect_times = 1, .gradients = false}));  // not looked at before the window ends
  job.TrainStep();
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(Contents(job.config_path) == ConfigText({.collect_times = 1, .gradients = false}));
  CHECK(job.Refresh() == RefreshOutcome::kArmed);
  job.TrainSteps(3);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1});
  CHECK(job.Steps("param_origin") == Steps{3});
}

TEST_CASE("an edit that meets the write-back and is taken back before anybody looked: the write-back is done then") {
  Job job(ConfigText({.collect_times = 1}));
  job.Start();
  job.TrainStep();
  job.Save(ConfigText({.collect_times = 7}));
  job.TrainStep();
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  job.Edit(ConfigText({.collect_times = 1}));
  CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 1}));
  job.TrainSteps(3);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("a window that ends while the file is away is written back when it returns") {
  Job job(ConfigText({.collect_times = 1}));
  job.Start();
  job.TrainStep();
  std::filesystem::remove(job.config_path);
  CHECK(job.Refresh() == RefreshOutcome::kMissing);
  job.TrainStep();
  job.Settle();
  CHECK(job.Count(EventKind::kWroteBack) == 0);
  job.Edit(ConfigText({.collect_times = 1}));
  CHECK(job.Count(EventKind::kWroteBack) == 1);
  CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 1}));
  job.TrainSteps(3);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("a file that is no file is an event, and training goes on") {
  Job job("");
  std::filesystem::create_directory(job.config_path);
  job.Start();
  CHECK(job.Count(EventKind::kUnreadable) == 1);
  job.TrainSteps(2);
  std::filesystem::remove(job.config_path);
  CHECK(job.Refresh() == RefreshOutcome::kMissing);
  CHECK(job.Edit(ConfigText({.collect_times = 1})) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{3});
}

TEST_CASE("a broken or missing file fails a static monitor with the reason, and only worries a dynamic one") {
  for (const char* text : {"", "{", "[]", "{\"targets\": true}"}) {
    INFO(text);
    Job fixed(text);
    fixed.options.dynamic = false;
    const Status refused = fixed.Create();
    CHECK_FALSE(refused.ok());
    CHECK_FALSE(refused.message().empty());
    if (*text != '\0') CHECK(refused.place().line == 1);

    Job steered(text);
    steered.Start();
    CHECK(steered.Count(*text == '\0' ? EventKind::kMissing : EventKind::kRefused) == 1);
    steered.TrainStep();
    CHECK(steered.Edit(ConfigText({.collect_times = 1})) == RefreshOutcome::kArmed);
    steered.TrainSteps(2);
    steered.Close();
    CHECK(steered.Steps("grad_reduced") == Steps{2});
  }
}

TEST_CASE("what the program's own event function throws stays there") {
  Job job(ConfigText({.collect_times = 2}));
  const auto remember = job.options.on_event;
  job.options.on_event = [remember](const Event& event) {
    remember(event);
    throw std::runtime_error("thrown on purpose");
  };
  job.Start();
  job.TrainSteps(4);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2});
  CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false}));
}

}  // namespace
}  // namespace stepwatch::testing
