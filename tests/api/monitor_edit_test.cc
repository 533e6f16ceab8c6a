// Edits while the job runs: refusals, the outcome of Refresh, events.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("Refresh returns the outcome of its look") {
  StartedJob job(ConfigText(Off()));
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

TEST_CASE("a refused edit is reported once, with its place, its reason and the plan that stays") {
  StartedJob job(ConfigText({.collect_times = 9}));
  job.TrainSteps(2);
  CHECK(job.Edit("{\n  \"dynamic_on\": true,\n  \"wg_distribution\": \"yes\"\n}\n") == RefreshOutcome::kRefused);
  job.Refresh();
  const auto refused = job.Events(EventKind::kRefused);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].place.line == 3);
  CHECK(refused[0].place.column > 0);
  CHECK(refused[0].place.key == "wg_distribution");
  CHECK(Has(refused[0].message, "the running plan stays"));
  CHECK(refused[0].sha256.size() == 64);
  CHECK(job.monitor->GetStatus().plan_id == 1);
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3});
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
  StartedJob job(ConfigText({.collect_times = 1}));
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

TEST_CASE("an exception of the program's own event function has no effect") {
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
