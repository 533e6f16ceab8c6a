// "on_restart": "once": what a start of a job begins after earlier starts of it have ended in every way.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "controller/api/job_id.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "src/output/history_file.h"
#include "tests/api/control_sockets.h"
#include "tests/api/ranked_job.h"
#include "tests/hooked_files.h"

namespace stepwatch::testing {
namespace {

const std::string kOnce = ", \"stepwatch\": {\"on_restart\": \"once\"}";
const std::string kConfig = ConfigText({.collect_times = 2}, kOnce);
const std::string kDone = ConfigText({.dynamic_on = false, .collect_times = 2}, kOnce);

// Where all starts of a job find their config, and leave their output.
struct Place {
  explicit Place(const std::string& text = kConfig) { WriteByRename(config, text); }

  std::unique_ptr<Job> NewStart(const std::string& job_id = "job 7") const {
    auto job = std::make_unique<Job>("");
    Place::Move(job.get(), *this, job_id);
    return job;
  }
  static void Move(Job* job, const Place& place, const std::string& job_id) {
    job->config_path = job->options.config_path = place.config;
    job->options.output_dir = place.out;
    job->options.job_id = job_id;
  }
  std::string Histories() const {
    std::string text;
    const auto histories = output::FindHistories(out);
    REQUIRE(histories.ok());
    for (const auto& found : histories.value()) text += Contents(found.directory + "/stepwatch_history.jsonl");
    return text;
  }

  TemporaryDirectory directory;
  const std::string config = directory / "config.json";
  const std::string out = directory / "out";
};

int ReadOnly(std::string_view call) {
  return call == "faccessat" ? EROFS : 0;
}

// A start that collects what it finds in the config to the end, and cannot write into it.
void CollectReadOnly(const Place& place, const std::string& job_id = "job 7") {
  HookedFiles files(ReadOnly);
  const auto job = place.NewStart(job_id);
  job->Start(files);
  job->TrainSteps(5);
  REQUIRE(job->WaitFor(EventKind::kWroteBack));
  CHECK(job->Events(EventKind::kFinished).at(0).step == 2);
  job->Close();
}

// The number of windows that a start with write access begins.
size_t Begins(const Place& place, const std::string& job_id = "job 7") {
  const auto job = place.NewStart(job_id);
  job->Start();
  job->TrainSteps(2);
  job->Close();
  CHECK(job->Count(EventKind::kApplied) + job->Count(EventKind::kNotBegun) <= 1);
  return job->Count(EventKind::kApplied);
}

// The child trains until `kills`, called at each call on a file, returns true, and is killed there.
void TrainAndDie(const Place& place, const std::function<bool(std::string_view call)>& kills) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    HookedFiles files([&](std::string_view call) {
      if (kills(call)) ::kill(::getpid(), SIGKILL);
      return 0;
    });
    const auto job = place.NewStart();
    job->Start(files);
    for (int i = 0; i < 100000; ++i) {
      job->TrainStep();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGKILL);
}

bool Tells(const Place& place, const std::string& outcome) {
  const auto found = output::FindHistories(place.out);
  if (!found.ok()) return false;
  const std::vector<output::HistoryLine>& lines = found.value().at(0).history.lines;
  return std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line.outcome == outcome; });
}

TEST_CASE("a job that is killed between the end of a window and the write-back does not begin it again") {
  // The write-back alone asks for rights, before all else; then it makes a file beside the config, with the same mode.
  // The write-back waits for a slow disk for a limited time: here until the history has its line.
  for (const std::string moment : {"", "faccessat", "fchmod"}) {
    INFO("killed before the first call " << moment);
    Place place;
    std::atomic<bool> writes_back = false;
    TrainAndDie(place, [&](std::string_view call) {
      if (call == "faccessat") writes_back = Eventually([&] { return Tells(place, "finished"); });
      return moment.empty() ? Tells(place, "finished") : writes_back && call == moment;
    });
    REQUIRE(Contents(place.config) == kConfig);

    const auto job = place.NewStart();
    job->Start();
    job->TrainSteps(5);
    REQUIRE(job->WaitFor(EventKind::kWroteBack));
    CHECK(Contents(place.config) == kDone);
    const auto not_begun = job->Events(EventKind::kNotBegun);
    REQUIRE(not_begun.size() == 1);
    CHECK(not_begun[0].step >= 2);
    CHECK(not_begun[0].message.find("this window was done at step " + std::to_string(not_begun[0].step) +
                                    " in an earlier start of this job") == 0);
    CHECK(not_begun[0].message.find("on_restart is once, so it does not begin again") != std::string::npos);
    CHECK(job->Count(EventKind::kArmed) == 0);

    CHECK(job->Edit(kConfig) == RefreshOutcome::kArmed);  // somebody wants it again
    job->TrainSteps(5);
    REQUIRE(job->WaitFor(EventKind::kWroteBack, 2));
    job->Close();
    CHECK(place.Histories().find("\"not_begun\"") != std::string::npos);
    WriteByRename(place.config, kConfig);  // and again, while no job runs
    CHECK(Begins(place) == 1);
  }
}

TEST_CASE("a job that is killed in the midst of a window begins it again") {
  Place place(ConfigText({.collect_times = 100000}, kOnce));
  TrainAndDie(place, [&](std::string_view) { return Tells(place, "applied"); });
  CHECK(Begins(place) == 1);
}

TEST_CASE("a window that a read-only file still asks for is not begun again until somebody asks the job for it") {
  Place place;
  ControlSockets sockets;
  CollectReadOnly(place);
  for (int again = 0; again < 2; ++again) {
    HookedFiles files(ReadOnly);
    const auto job = place.NewStart();
    job->Start(files);
    job->TrainSteps(3);
    REQUIRE(job->WaitFor(EventKind::kWroteBack));
    CHECK(job->Refresh() == RefreshOutcome::kUnchanged);
    CHECK(job->Count(EventKind::kArmed) == 0);
    Json status = sockets.Status();
    CHECK(status["state"] == "IDLE");
    CHECK(status["drift"] == false);
    CHECK(status["job_id"] == "job 7");
    CHECK(status["not_begun"].get<std::string>().find("this window was done at step ") == 0);

    const std::vector<std::pair<std::string, std::string>> wishes{{"/v1/start", ""}, {"/v1/apply", kConfig}};
    for (const auto& [target, body] : wishes) {
      const auto reply = sockets.client().Ask({"POST", target, body, "", ""}, std::chrono::seconds(20));
      REQUIRE(reply.ok());
      INFO(reply.value().body);
      const Json change = json::Parse(reply.value().body).value();
      CHECK(change["outcome"] == "unchanged");
      CHECK(change["begun_again"] == true);
      CHECK(change["taken"] == "armed");
      CHECK(sockets.Status()["not_begun"].is_null());
      const Json twice = json::Parse(sockets.client().Ask("POST", "/v1/start", "").value().body).value();
      CHECK_FALSE(twice.contains("begun_again"));
      CHECK(twice["taken"] == "armed");
      job->TrainSteps(4);
      job->Settle();
      REQUIRE(Eventually([&] { return job->Count(EventKind::kWroteBack) == job->Count(EventKind::kArmed) + 1; }));
    }
    CHECK(job->Count(EventKind::kFinished) == 2);
    job->Close();
    CHECK(Contents(place.config) == kConfig);
  }
}

TEST_CASE("other bytes begin, another job begins, and so does what somebody puts back") {
  Place place;
  CollectReadOnly(place);
  CHECK(Begins(place, "job 8") == 1);
  Place other;
  CollectReadOnly(other);
  WriteByRename(other.config, ConfigText({.collect_times = 2}, kOnce) + "// other bytes\n");
  CollectReadOnly(other);
  CHECK(Begins(other) == 0);
  WriteByRename(other.config, kConfig);
  CHECK(Begins(other) == 1);
}

TEST_CASE("a done window that comes back after a text that asked for nothing begins, also at a restart") {
  Place place;
  HookedFiles files(ReadOnly);
  const auto job = place.NewStart();
  job->Start(files);
  job->TrainSteps(5);
  REQUIRE(job->WaitFor(EventKind::kWroteBack));
  job->Edit(kDone + "// by hand\n");
  job->Close();
  CHECK(place.Histories().find("\"off\"") != std::string::npos);
  WriteByRename(place.config, kConfig);
  CHECK(Begins(place) == 1);
}

TEST_CASE("without on_restart a window begins again as ever") {
  Place place(ConfigText({.collect_times = 2}));
  CollectReadOnly(place);
  CHECK(Begins(place) == 1);
}

TEST_CASE("a job that no restart can recognize gets a warning, and begins") {
  const auto warning_of = [](Job* job) {
    job->Start();
    job->TrainSteps(2);
    job->Close();
    CHECK(job->Count(EventKind::kApplied) == 1);
    for (const Event& event : job->Events(EventKind::kWarning))
      if (event.place.key == "stepwatch.on_restart") return event.message;
    return std::string("nothing");
  };
  Place nameless;
  ::unsetenv("STEPWATCH_JOB_ID");
  CHECK(warning_of(nameless.NewStart("").get()).find("set STEPWATCH_JOB_ID") != std::string::npos);
  Place kept;
  CHECK(warning_of(kept.NewStart().get()) == "nothing");
  Place api(ConfigText({.collect_times = 2}, kOnce + ", \"format\": \"api\""));
  const auto without_files = api.NewStart();
  without_files->counts_rows = false;
  CHECK(warning_of(without_files.get()).find("the format api keeps no history") != std::string::npos);
  Place fixed;
  const auto in_static_mode = fixed.NewStart();
  in_static_mode->options.dynamic = false;
  CHECK(warning_of(in_static_mode.get()).find("not in dynamic mode") != std::string::npos);
  Place apart;
  const auto rank = apart.NewStart();
  rank->options.world_size = 2;
  CHECK(warning_of(rank.get()).find("share no store") != std::string::npos);
}

TEST_CASE("a history that cannot be read is a warning, and the window begins") {
  Place place;
  std::filesystem::create_directories(place.out + "/old");
  WriteInPlace(place.out + "/old/stepwatch_history.jsonl", "these are no lines of a history\n");
  const auto job = place.NewStart();
  job->Start();
  job->TrainSteps(2);
  job->Close();
  CHECK(job->Count(EventKind::kApplied) == 1);
  REQUIRE(job->Count(EventKind::kWarning) == 1);
  CHECK(job->Events(EventKind::kWarning)[0].message.find("old/stepwatch_history.jsonl") != std::string::npos);
}

TEST_CASE("a job's id is what it is given, or the launcher's") {
  for (const char* name : {"STEPWATCH_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
    ::unsetenv(name);
  CHECK(api::JobIdOr("").empty());
  const Variable slurm("SLURM_JOB_ID", "77");
  CHECK(api::JobIdOr("") == "77");
  const Variable none("TORCHELASTIC_RUN_ID", "none");  // torchrun without --rdzv-id
  CHECK(api::JobIdOr("") == "77");
  const Variable named("TORCHELASTIC_RUN_ID", "pretrain");
  CHECK(api::JobIdOr("") == "pretrain");
  const Variable own("STEPWATCH_JOB_ID", "mine");
  CHECK(api::JobIdOr("") == "mine");
  CHECK(api::JobIdOr("given") == "given");
}

// The ranks of one start. Every rank but 0 has an output of its own, as on another host.
struct RanksOf {
  explicit RanksOf(const Place& place) : job(3, "") {
    for (auto& rank : job.ranks) {
      const std::string own = rank->directory / "out";
      Place::Move(rank.get(), place, "job 7");
      if (rank->options.rank != 0) rank->options.output_dir = own;
    }
  }
  RankedJob job;
};

TEST_CASE("all ranks of a job leave a window alone that was done, and begin it together when somebody asks") {
  Place place;
  HookedFiles files(ReadOnly);
  {
    RanksOf first(place);
    first.job[0].Start(files);
    first.job[1].Start();
    first.job[2].Start();
    first.job.Run(milliseconds(1));
    REQUIRE(first.job.Settle(1));
    first.job.Close();
  }
  ControlSockets sockets;
  RanksOf second(place);
  second.job[0].Start(files);
  second.job[1].Start();
  second.job[2].Start();
  second.job.Run(milliseconds(1));
  REQUIRE(second.job[0].WaitFor(EventKind::kNotBegun));
  REQUIRE(Eventually([&] { return second.job.Slowest() > 20; }));
  for (auto& rank : second.job.ranks) CHECK(rank->Count(EventKind::kArmed) == 0);
  for (size_t rank : {1, 2}) CHECK(second.job[rank].Count(EventKind::kWarning) == 0);

  const auto found = sockets.Find(3);
  const auto reply = http::Client(found.back().path).Ask({"POST", "/v1/start", "", "", ""}, std::chrono::seconds(20));
  REQUIRE(reply.ok());
  INFO(reply.value().body);
  CHECK(json::Parse(reply.value().body).value()["begun_again"] == true);
  REQUIRE(second.job.WaitForAll(EventKind::kDrained));
  second.job.Close();
  const Steps steps = second.job[0].Steps("grad_reduced");
  CHECK(steps.size() == 2);
  for (auto& rank : second.job.ranks) CHECK(rank->Steps("grad_reduced") == steps);
}

}  // namespace
}  // namespace stepwatch::testing
