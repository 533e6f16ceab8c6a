// The control socket of a real monitor: the state of a run as people and programs of this user see it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "controller/api/control_socket_settings.h"
#include "controller/api/monitor_impl.h"
#include "controller/api/monitor_job.h"
#include "src/sockets/runtime_directory.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE(
    "a monitor of a test without settings of its own opens its control socket where no other program looks for jobs") {
  StartedJob job(ConfigText(Off()));
  const std::vector<std::string> directories = sockets::RuntimeDirectories(::geteuid());
  REQUIRE(directories.front() == sockets::NamedRuntimeDirectory());
  REQUIRE(Eventually([&] { return !control_socket::FindJobs({.directories = {directories.front()}}).empty(); }));
  const std::vector<std::string> common(directories.begin() + 1, directories.end());
  for (const control_socket::FoundJob& found : control_socket::FindJobs({.directories = common}))
    CHECK(found.pid != ::getpid());
}

TEST_CASE("the status follows an edit through the life of its plan") {
  const ControlSockets sockets;
  Job job(ConfigText(Off()));
  job.options.rank = 0;
  job.Start();
  Json status = sockets.Status();
  CHECK(status["state"] == "IDLE");
  CHECK(status["pid"] == ::getpid());
  CHECK(status["config_path"] == job.config_path);
  CHECK(status["drift"] == false);
  CHECK(status["plan"].is_null());
  const std::string off = status["file_sha256"];
  CHECK(off.size() == 64);

  job.TrainSteps(2);
  REQUIRE(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
  status = sockets.Status();
  CHECK(status["state"] == "ARMED");
  CHECK(status["at_step"] == job.monitor->step() + 1);
  CHECK(status["armed"]["plan_id"] == 1);
  CHECK(status["armed"]["collect_times"] == 3);
  CHECK(status["file_sha256"] != off);
  CHECK(status["running_sha256"] == status["file_sha256"]);

  job.TrainStep();
  status = sockets.Status();
  CHECK(status["state"] == "COLLECTING");
  CHECK(status["plan_id"] == 1);
  CHECK(status["armed"].is_null());
  CHECK(status["collect_times"] == 3);
  CHECK(job.monitor->GetStatus().collecting_step);

  CHECK(sockets.HasStatus("output_dir", job.monitor->GetStatus().output_dir));
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(sockets.HasStatus("state", "IDLE"));
  status = sockets.Status();
  CHECK(status["ledger"]["produced"] == status["ledger"]["written"]);
  CHECK(status["ledger"]["written"] > 0);
  CHECK(status["write_back"].get<std::string>().find("dynamic_on is false") == 0);
  CHECK(status["drift"] == false);
  CHECK(status["measuring_seconds"] > 0);
}

TEST_CASE("a refused edit is shown with its place, and as drift, as a missing file is") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 50}));
  job.TrainSteps(2);
  REQUIRE(job.Edit("{\n  \"ops\": \"norm\"\n}") == RefreshOutcome::kRefused);
  Json status = sockets.Status();
  CHECK(status["drift"] == true);
  CHECK(status["refusal"]["line"] == 2);
  CHECK(status["refusal"]["column"] == 10);
  CHECK(status["refusal"]["key"] == "ops");
  CHECK(status["refusal"]["sha256"] == status["file_sha256"]);
  CHECK(status["running_sha256"] != status["file_sha256"]);
  CHECK(status["state"] == "COLLECTING");
  REQUIRE(job.Edit(ConfigText({.collect_times = 60})) == RefreshOutcome::kArmed);
  status = sockets.Status();
  CHECK(status["drift"] == false);
  CHECK(status["refusal"].is_null());
  std::filesystem::remove(job.config_path);
  REQUIRE(job.Refresh() == RefreshOutcome::kMissing);
  status = sockets.Status();
  CHECK(status["drift"] == true);
  CHECK(Has(status["file_trouble"].get<std::string>(), job.config_path));
}

TEST_CASE("the status has the limits in force, and the bytes on the disk") {
  const ControlSockets sockets;
  Job job(
      ConfigText({.collect_times = 3}, ", \"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\"}], \"dump\": true}"));
  job.options.limits.bytes_max = 1 << 20;
  job.options.limits.rows_per_step_max = 100;
  job.options.limits.formats = {OutputFormat::kCsv};
  job.options.limits.output_root = job.directory.path();
  job.Start();
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  const auto on_disk = [&] {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(job.directory / "out"))
      if (entry.is_regular_file()) bytes += entry.file_size();
    return bytes;
  };
  CHECK(Eventually([&] { return sockets.Status()["limits"]["bytes_used"] == on_disk(); }));
  const Json limits = sockets.Status()["limits"];
  CHECK(limits["bytes_max"] == 1 << 20);
  CHECK(limits["bytes_used_up"] == false);
  CHECK(limits["rows_per_step_max"] == 100);
  CHECK(limits["formats"] == Json{"csv"});
  CHECK(limits["output_root"] == job.directory.path());
  CHECK(limits["queue_bytes_max"].is_null());
  CHECK(sockets.HasMetric("disk_bytes_max 1048576"));
}

TEST_CASE("the control socket streams the events that the program receives, up to the end of the run") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 50}));
  std::vector<std::string> names;
  std::thread reader([&names, client = sockets.client()] {
    (void)client.Follow(0, [&names](const std::string& name, const std::string&) {
      names.push_back(name);
      return true;
    });
  });
  job.TrainSteps(3);
  job.Close();
  reader.join();
  std::vector<std::string> expected;
  for (const Event& event : job.Events()) expected.push_back(EventKindName(event.kind));
  CHECK(names == expected);
  CHECK(names.back() == "drained");
}

TEST_CASE("the latest values are those that the program gets") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 50}));
  job.options.keep_latest = true;
  job.Start();
  job.TrainSteps(3);
  const std::vector<LatestValue> values = job.monitor->Latest(SiteKind::kGradReduced);
  REQUIRE_FALSE(values.empty());
  const Json shown = sockets.Get("/v1/latest/grad_reduced")["values"];
  REQUIRE(shown.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(shown[i]["tag"] == values[i].tag);
    CHECK(shown[i]["step"] == values[i].record.step);
    CHECK(shown[i]["values"]["norm"] == values[i].record.values[0].f64);
  }
  CHECK(sockets.Get("/v1/latest/actv")["values"].empty());
}

TEST_CASE("a control socket that is not wanted is not there: no socket, no thread") {
  const ControlSockets sockets;
  const auto check = [&](Job& job) {
    job.Start();
    job.TrainSteps(3);
    job.Close();
    CHECK_FALSE(std::filesystem::exists(sockets.runtime));
  };
  Job by_option(ConfigText({.collect_times = 2}));
  by_option.options.control_socket = false;
  check(by_option);
  const Variable variable("STEPWATCH_SOCKET", "0");
  Job by_environment(ConfigText({.collect_times = 2}));
  check(by_environment);
}

// Has no directory for sockets.
class NoRuntimeFiles final : public base::FileSystemWrapper {
 public:
  int Lstat(const char* path, struct stat* about) override {
    if (std::find(refused_.begin(), refused_.end(), path) == refused_.end())
      return FileSystemWrapper::Lstat(path, about);
    errno = EACCES;
    return -1;
  }

 private:
  const std::vector<std::string> refused_ = sockets::RuntimeDirectories(::geteuid());
};

TEST_CASE("a control socket that cannot be opened is one note, and the run goes on") {
  const ControlSockets sockets;
  NoRuntimeFiles files;
  Job job(ConfigText({.collect_times = 2}));
  job.Start(files);
  REQUIRE(job.WaitFor(EventKind::kNote));
  job.TrainSteps(5);
  job.Settle();
  CHECK(job.Count(EventKind::kNote) == 1);
  CHECK(job.Events(EventKind::kNote)[0].message.find("cannot open the control socket of this run") == 0);
  CHECK(job.Count(EventKind::kDrained) == 1);
}

TEST_CASE("what the program wants of the control socket goes before the environment") {
  const Variable tcp("STEPWATCH_SOCKET_TCP", "127.0.0.1:1"), group("STEPWATCH_SOCKET_GROUP", "wheel");
  const Variable sites("STEPWATCH_METRICS_SITES_MAX", "1000000000");
  Options options;
  options.control_socket_options.tcp = "127.0.0.1:0";
  const api::ControlSocketSettings settings = api::SettingsOfControlSocket(options);
  CHECK(settings.options.tcp == "127.0.0.1:0");
  CHECK(settings.options.group == "wheel");
  CHECK(settings.options.token_file.empty());
  CHECK(settings.options.metrics_sites_max == 100000);
  CHECK(settings.trouble.empty());
  // The trainer may go elsewhere later.
  options.control_socket_options.token_file = "token";
  CHECK(api::SettingsOfControlSocket(options).options.token_file ==
        std::filesystem::current_path().string() + "/token");
}

TEST_CASE("the former names of the control socket's settings hold where the new ones are unset") {
  const Variable tcp("STEPWATCH_DOOR_TCP", "127.0.0.1:1"), group("STEPWATCH_DOOR_GROUP", "wheel");
  const Variable new_group("STEPWATCH_SOCKET_GROUP", "readers");
  Options options;
  options.door_options.tcp_name = "node7";
  options.door_options.metrics_sites_max = 3;
  const ControlSocketOptions held = api::SettingsOfControlSocket(options).options;
  CHECK(held.tcp == "127.0.0.1:1");
  CHECK(held.group == "readers");
  CHECK(held.tcp_name == "node7");
  CHECK(held.metrics_sites_max == 3);
  options.door = false;
  CHECK_FALSE(api::SettingsOfControlSocket(options).is_wanted);
  const Variable off("STEPWATCH_DOOR", "0");
  CHECK_FALSE(api::SettingsOfControlSocket(Options()).is_wanted);
}

TEST_CASE("an invalid number of series is one note, and the control socket is open") {
  const ControlSockets sockets;
  const Variable sites("STEPWATCH_METRICS_SITES_MAX", "many");
  StartedJob job(ConfigText(Off()));
  REQUIRE(job.WaitFor(EventKind::kNote));
  CHECK(job.Events(EventKind::kNote)[0].message ==
        "STEPWATCH_METRICS_SITES_MAX is \"many\", which is not a whole number; /metrics shows no sites");
  CHECK_FALSE(Has(sockets.Metrics(), "stepwatch_site"));
}

TEST_CASE("the metrics count the edits, looks, decisions and drains of the run") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 2}));
  job.TrainSteps(6);
  job.Settle();
  REQUIRE(Eventually([&] { return job.Count(EventKind::kDrained) == 1; }));
  CHECK(sockets.HasMetric("decision_latency_seconds_count 1"));
  CHECK(sockets.HasMetric("drain_seconds_count 1"));
  CHECK(sockets.HasMetric("last_edit_success 1"));
  REQUIRE(job.Edit(R"({"ops": 1})") == RefreshOutcome::kRefused);
  CHECK(sockets.HasMetric("last_edit_success 0"));
  CHECK(sockets.HasMetric("swap_seconds_count 1"));
  CHECK(sockets.HasMetric("refusals_total{reason=\"value\"} 1"));
  REQUIRE(job.Edit(R"({"ops": )") == RefreshOutcome::kRefused);
  CHECK(sockets.HasMetric("refusals_total{reason=\"syntax\"} 1"));
  CHECK(sockets.HasMetric("ranks{state=\"IDLE\"} 1"));
  CHECK(sockets.HasMetric("state{state=\"IDLE\"} 1"));
  CHECK(sockets.HasMetric("looks_total{cause=\"refresh\"} 3"));
  CHECK(sockets.HasMetric("decision_latency_seconds_count 1"));
}

TEST_CASE("the time of a step is that of the last looks, and there is none while no step ends") {
  using std::chrono::seconds;
  const auto start = std::chrono::steady_clock::now();
  api::StepTime time;
  CHECK_FALSE(time.Seconds(start));
  for (int i = 0; i < 30; ++i) time.Look(i < 20 ? i : 20 + (i - 20) * 4, start + seconds(i));
  CHECK(time.Seconds(start + seconds(29)) == 0.25);
  time.Look(56, start + seconds(31));
  CHECK(time.Seconds(start + seconds(33)) == 0.25);
  CHECK_FALSE(time.Seconds(start + seconds(40)));
}

}  // namespace
}  // namespace stepwatch::testing
