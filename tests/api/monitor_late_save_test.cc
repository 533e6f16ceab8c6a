// An edit that an editor writes into the file which a write-back has just replaced.
#include <fcntl.h>
#include <unistd.h>

#include "controller/writeback/config_edit.h"
#include "src/base/file.h"
#include "src/base/sha256.h"
#include "tests/api/job.h"
#include "tests/hooked_files.h"

namespace stepwatch::testing {
namespace {

// A config that was written back, and an editor that looked it up before and opens what it found afterwards.
struct LateSave {
  explicit LateSave(bool watches) : job(ConfigText({.collect_times = 1})) {
    if (watches) {
      job.options.look_interval = std::chrono::milliseconds(20);
      job.options.quiet_time = std::chrono::milliseconds(5);
    }
    job.Start();
    found = base::UniqueFd(::open(job.config_path.c_str(), O_PATH | O_CLOEXEC));
    job.TrainSteps(2);
    REQUIRE(job.WaitFor(EventKind::kWroteBack));
    REQUIRE(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 1}));
  }
  void Save() { WriteInPlace("/proc/self/fd/" + std::to_string(found.get()), edit); }
  int FilesBesideConfig() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(job.directory.path()))
      count += entry.path().filename().string().find(".config.json.stepwatch-") == 0;
    return count;
  }

  Job job;
  base::UniqueFd found;
  const std::string edit = ConfigText({.collect_times = 1, .gradients = false});
};

}  // namespace

TEST_CASE("an edit written to the file that the write-back replaced is put in and runs") {
  LateSave late(true);
  late.Save();
  REQUIRE(Eventually([&] {
    late.job.TrainStep();
    return late.job.Count(EventKind::kWroteBack) == 2;
  }));
  CHECK(late.job.Count(EventKind::kSeen) == 2);
  CHECK(Has(late.job.Events(EventKind::kNote).back().message, "is in the config now"));
  CHECK(Contents(late.job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 1, .gradients = false}));
  late.job.Close();
  CHECK(late.job.Steps("param_origin").size() == 1);
}

TEST_CASE("a refresh finds an edit in the file that the write-back replaced") {
  LateSave late(false);
  late.Save();
  CHECK(late.job.Refresh() == RefreshOutcome::kArmed);
  CHECK(Contents(late.job.config_path) == late.edit);
}

TEST_CASE("a monitor that closes leaves the late edit in the config, and nothing beside it") {
  const bool is_saved = GENERATE(false, true);
  LateSave late(false);
  CHECK(late.FilesBesideConfig() == 1);
  if (is_saved) late.Save();
  late.job.Close();
  CHECK(late.FilesBesideConfig() == 0);
  const std::string written = ConfigText({.dynamic_on = false, .collect_times = 1});
  CHECK(Contents(late.job.config_path) == (is_saved ? late.edit : written));
}

TEST_CASE("a monitor begins with the edit that a killed one left beside the config") {
  Job job(ConfigText({.collect_times = 1}));
  const std::string base = ConfigText({.collect_times = 1});
  writeback::WriteBackResult killed = writeback::SetDynamicOn(job.config_path, base::Sha256Hex(base), false);
  REQUIRE(killed.displaced);
  for (const auto& entry : std::filesystem::directory_iterator(job.directory.path())) {
    if (entry.path() != job.config_path) WriteInPlace(entry.path().string(), ConfigText({.collect_times = 3}));
  }
  job.Start();
  CHECK(Contents(job.config_path) == ConfigText({.collect_times = 3}));
  CHECK(job.Count(EventKind::kArmed) == 1);
  job.Close();
}

TEST_CASE("a write-back that runs out of memory is done a moment later") {
  for (const std::string_view call : {"faccessat", "fsync", "renameat2", "fstat"}) {
    INFO(call);
    std::atomic<bool> fails = false;
    HookedFiles files([&](std::string_view made) {
      if (made == call && fails.exchange(false)) throw std::bad_alloc();
      return 0;
    });
    Job job(ConfigText({.collect_times = 1}));
    job.options.look_interval = std::chrono::milliseconds(20);
    job.Start(files);
    job.TrainStep();
    REQUIRE(job.WaitFor(EventKind::kApplied));
    fails = true;
    job.TrainStep();
    const std::string written = ConfigText({.dynamic_on = false, .collect_times = 1});
    CHECK(Eventually([&] { return Contents(job.config_path) == written; }));
    job.Settle();
    CHECK_FALSE(fails);
    job.TrainSteps(3);
    job.Close();
    CHECK(job.Steps("grad_reduced") == Steps{1});
    CHECK(Contents(job.config_path) == written);
  }
}

}  // namespace stepwatch::testing
