// Limits that no config exceeds: what would go beyond one is refused or ends, in good order and with exact accounts.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "controller/api/limits_in_force.h"
#include "tests/api/job.h"
#include "tests/variable.h"

namespace stepwatch::testing {
namespace {

using api::LimitsInForce;

constexpr uint64_t kBytesMax = 20000;

std::string Refusal(const Job& job) {
  const std::vector<Event> refused = job.Events(EventKind::kRefused);
  REQUIRE(refused.size() == 1);
  return refused[0].message;
}

uint64_t BytesIn(const std::string& directory, const std::string& extension = "") {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && (extension.empty() || entry.path().extension() == extension))
      bytes += entry.file_size();
  return bytes;
}

// Trains until the collection has ended; the rows of a step are written, and known to the loop, before the next.
void TrainToTheLimit(Job* job) {
  for (int step = 0; step < 1000 && job->Count(EventKind::kDrained) == 0; ++step) {
    job->TrainStep();
    REQUIRE(job->monitor->Flush(std::chrono::seconds(10)));
    (void)job->Refresh();  // the loop knows it
  }
  REQUIRE(job->Count(EventKind::kDrained) == 1);
  job->Settle();
}

TEST_CASE("an edit with more rows a step than allowed is refused and the running plan stays") {
  Job job(ConfigText({.collect_times = 100}));
  job.options.limits.rows_per_step_max = 4;
  job.Start();
  job.TrainSteps(2);
  CHECK(job.Edit(ConfigText({.collect_times = 100}, ", \"xy_distribution\": true")) == RefreshOutcome::kRefused);
  CHECK(Refusal(job) ==
        "a collected step would have 12 rows, and the limits of this run allow 4 (STEPWATCH_ROWS_PER_STEP_MAX); select "
        "fewer modules, parameters or kinds; the running plan stays");
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 1);
  CHECK(job.Edit(ConfigText({.collect_times = 50})) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3, 4, 5});
}

TEST_CASE("an edit with a format that is not allowed is refused, naming those that are") {
  Job job(ConfigText({.collect_times = 100}, ", \"format\": \"tensorboard\""));
  job.options.limits.formats = {OutputFormat::kCsv, OutputFormat::kApi};
  job.Start();
  CHECK(Refusal(job) ==
        "\"tensorboard\" is not among the formats that the limits of this run allow (STEPWATCH_FORMATS): \"csv\" and "
        "\"api\"");
  CHECK(job.Events(EventKind::kRefused)[0].place.key == "format");
  CHECK(job.Edit(ConfigText({.collect_times = 1})) == RefreshOutcome::kArmed);
}

TEST_CASE("an edit that cannot run in the memory for queues is refused, and one that can runs within it") {
  Job job(ConfigText({.collect_times = 100}), 2000);
  job.options.limits.queue_bytes_max = 1 << 20;
  job.Start();
  CHECK(Has(Refusal(job), "and the limits of this run allow 1.0 MiB (STEPWATCH_QUEUE_BYTES_MAX)"));
  Job small(ConfigText({.collect_times = 3}));
  small.options.limits.queue_bytes_max = 1 << 20;
  small.Start();
  small.TrainSteps(5);
  small.Close();
  CHECK(small.Steps("grad_reduced") == Steps{1, 2, 3});
}

TEST_CASE("with a root all files of a run lie below it") {
  Job job(ConfigText({.collect_times = 2}, ", \"print_struct\": true"));
  job.options.limits.output_root = job.directory.path();
  job.Start();
  job.TrainSteps(4);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2});
  CHECK(std::filesystem::exists(job.output_dir + "/manifest.json"));
  CHECK(std::filesystem::exists(job.directory / "out/module_struct/rank0/module_struct.json"));
}

TEST_CASE("an edit whose output would leave the root is refused, and one without output runs") {
  Job job(ConfigText({.collect_times = 2}));
  job.options.limits.output_root = job.directory / "root";
  job.counts_rows = false;  // those that are taken have no file
  std::string why;
  SECTION("the output lies elsewhere") {
    why = " is outside";
  }
  SECTION("a link leads there") {
    std::filesystem::create_directories(job.directory / "root");
    std::filesystem::create_directories(job.directory / "elsewhere");
    std::filesystem::create_directory_symlink(job.directory / "elsewhere", job.directory / "root/out");
    job.options.output_dir = job.directory / "root/out";
    why = " goes through a symbolic link, which may lead out of";
  }
  job.Start();
  CHECK(Refusal(job) == "the output directory " + job.options.output_dir + why + " the output root " +
                            job.directory / "root" +
                            " (STEPWATCH_OUTPUT_ROOT); put the output below the root and start the job again");
  CHECK(job.Edit(ConfigText({.collect_times = 2}, ", \"format\": \"api\"")) == RefreshOutcome::kArmed);
  job.TrainSteps(4);
  job.Close();
  CHECK(job.Events(EventKind::kDrained).at(0).ledger.written == 8);
  CHECK_FALSE(std::filesystem::exists(job.directory / "out"));
  CHECK(std::filesystem::is_empty(job.directory / "root") == why.starts_with(" is outside"));
}

TEST_CASE("a link that appears in the middle of a run is not followed") {
  Job job(ConfigText({.collect_times = 100}));
  job.options.limits.output_root = job.directory / "root";
  job.options.output_dir = job.directory / "root/out";
  job.counts_rows = false;
  job.Start();
  job.TrainSteps(3);
  REQUIRE(job.monitor->Flush(std::chrono::seconds(10)));
  std::filesystem::create_directories(job.directory / "elsewhere");
  // A writer may have made the directory anew before the link is in its place.
  std::error_code in_the_way;
  for (int i = 0; i == 0 || (in_the_way && i < 100); ++i) {
    std::filesystem::rename(job.directory / "root/out", job.directory / ("moved" + std::to_string(i)));
    std::filesystem::create_directory_symlink(job.directory / "elsewhere", job.directory / "root/out", in_the_way);
  }
  REQUIRE_FALSE(in_the_way);
  job.TrainSteps(3);
  REQUIRE(job.WaitFor(EventKind::kDegraded));
  CHECK(std::filesystem::is_empty(job.directory / "elsewhere"));
  std::filesystem::remove(job.directory / "root/out");
  CHECK(job.WaitFor(EventKind::kRecovered));
}

TEST_CASE("near the disk limit there is a warning, and at it the collection ends with exact accounts", "[limits]") {
  const bool is_csv = GENERATE(true, false);
  Job job(ConfigText({.collect_times = 100000}, is_csv ? "" : ", \"format\": \"tensorboard\""));
  job.options.limits.bytes_max = kBytesMax;
  job.counts_rows = is_csv;
  job.Start();
  TrainToTheLimit(&job);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  const std::vector<Event> limited = job.Events(EventKind::kLimited);
  REQUIRE(limited.size() == 2);
  CHECK(Has(limited[0].message, "of the allowed 19.5 KiB (STEPWATCH_BYTES_MAX); when they are used up"));
  CHECK(Has(limited[1].message, "the collection ends"));
  CHECK(job.Events(EventKind::kFinished).at(0).message == "a limit of the run was reached");
  const Ledger ledger = job.Events(EventKind::kDrained).at(0).ledger;
  CHECK(ledger.written == ledger.produced);
  CHECK(ledger.written > 0);
  CHECK(Has(Contents(job.config_path), "\"dynamic_on\"  :\tfalse"));
  // The same text again, and any other with files, starts nothing.
  CHECK(job.Edit(ConfigText({.collect_times = 100000})) == RefreshOutcome::kRefused);
  CHECK(Has(Refusal(job), "it writes no more rows until it is started again; the format \"api\" needs no disk"));
  CHECK(job.Edit(ConfigText({.collect_times = 1}, ", \"format\": \"api\"")) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  job.counts_rows = false;  // the last plan has rows without a file
  job.Close();
  CHECK(job.Count(EventKind::kLimited) == 2);
  CHECK(BytesIn(job.output_dir, ".csv") <= kBytesMax);
  CHECK(Has(Contents(job.output_dir + "/stepwatch_history.jsonl"), "\"limited\""));
}

TEST_CASE("rows that come faster than the stop are dropped and counted, and none is torn") {
  Job job(ConfigText({.collect_times = 100000}));
  job.options.limits.bytes_max = kBytesMax;
  job.Start();
  job.TrainSteps(3000);
  // The stop comes at a boundary, and the rows may be written after all these steps.
  REQUIRE(Eventually([&] {
    job.TrainStep();
    return job.Count(EventKind::kDrained) > 0;
  }));
  const Ledger ledger = job.Events(EventKind::kDrained).at(0).ledger;
  CHECK(ledger.balanced());
  CHECK(ledger.written < ledger.produced);
  // Steps without a pause may outrun the drain as well, which is reported.
  for (const Event& event : job.Events(EventKind::kDegraded)) CHECK(Has(event.message, "ring_full"));
  job.Close();  // the files hold exactly the rows of the ledger
  CHECK(BytesIn(job.output_dir, ".csv") <= kBytesMax);
  for (const std::string& file : job.CsvFiles()) {
    const Table table = ReadTable(file);
    for (const auto& row : table) CHECK(row.size() == table[0].size());
    CHECK(Contents(file).back() == '\n');
  }
}

TEST_CASE("in static mode a config beyond a limit is the error of the program") {
  Job job(ConfigText({.collect_times = 1}));
  job.options.dynamic = false;
  job.options.limits.rows_per_step_max = 3;
  REQUIRE(job.Create().ok());
  CHECK(job.Attach().message().find("a collected step would have 4 rows") == 0);
}

TEST_CASE("what the program sets is no way around a limit") {
  Job job(ConfigText({.collect_times = 100}));
  job.options.limits.rows_per_step_max = 4;
  job.Start();
  job.TrainSteps(2);
  CHECK(job.monitor->Amend(Xy()).ok());
  REQUIRE(job.WaitFor(EventKind::kLimited));
  CHECK(Has(job.Events(EventKind::kLimited)[0].message, "the change set by the program is refused"));
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 1);
  job.Close();
  CHECK(job.RowsByStep("actv").empty());
}

TEST_CASE("a model that grows beyond a limit ends the collection") {
  Job job(ConfigText({.collect_times = 100}));
  job.options.limits.rows_per_step_max = 5;
  job.Start();
  job.TrainSteps(2);
  SyntheticModel larger(3, 8, 1);
  CHECK(job.monitor->Attach(larger.Sites(), &larger).ok());
  REQUIRE(job.WaitFor(EventKind::kLimited));
  job.TrainSteps(larger, 3);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(job.monitor->GetStatus().state == RunState::kIdle);
  CHECK(job.Events(EventKind::kFinished).back().message == "a limit of the run was reached");
  job.Close();
}

// --- which limits are in force ---

api::LimitSources Environment(const std::map<std::string, std::string>& variables) {
  api::LimitSources sources;
  sources.variable = [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  sources.resolve = [](const std::string& path) -> Result<std::string> { return path; };
  return sources;
}

TEST_CASE("of a limit of the program and one of the environment the stricter one is in force") {
  Limits of_program;
  of_program.bytes_max = 1000;
  of_program.rows_per_step_max = 50;
  of_program.formats = {OutputFormat::kCsv, OutputFormat::kApi};
  const std::map<std::string, std::string> variables = {{"STEPWATCH_BYTES_MAX", "2K"},
                                                        {"STEPWATCH_ROWS_PER_STEP_MAX", "20"},
                                                        {"STEPWATCH_QUEUE_BYTES_MAX", "64M"},
                                                        {"STEPWATCH_FORMATS", "api,tensorboard"},
                                                        {"STEPWATCH_OUTPUT_ROOT", "/data/runs"}};
  const Limits limits = LimitsInForce(of_program, Environment(variables)).value();
  CHECK(limits.bytes_max == 1000);
  CHECK(limits.rows_per_step_max == 20);
  CHECK(limits.queue_bytes_max == uint64_t{64} << 20);
  CHECK(*limits.formats == std::vector{OutputFormat::kApi});
  CHECK(limits.output_root == "/data/runs");
  const Limits none = LimitsInForce({}, Environment({{"STEPWATCH_BYTES_MAX", ""}})).value();
  CHECK(none.bytes_max == 0);
  CHECK_FALSE(none.formats);
}

TEST_CASE("of two output roots the inner one is in force") {
  const auto root = [](const std::string& own, const std::string& other) {
    Limits of_program;
    of_program.output_root = own;
    const auto limits = LimitsInForce(of_program, Environment({{"STEPWATCH_OUTPUT_ROOT", other}}));
    return limits.ok() ? limits.value().output_root : limits.status().message();
  };
  CHECK(root("/data", "/data/runs") == "/data/runs");
  CHECK(root("/data/runs", "/data") == "/data/runs");
  CHECK(root("/", "/data") == "/data");
  CHECK(Has(root("/data/a", "/data/ab"), "do not overlap"));
}

TEST_CASE("a root that a link leads out of the other one does not loosen it") {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "root");
  std::filesystem::create_directories(directory / "elsewhere");
  std::filesystem::create_directory_symlink(directory / "elsewhere", directory / "root/link");
  api::LimitSources sources = api::SystemLimitSources(base::FileSystem::Real());
  sources.variable = [&, path = directory / "root/link"](const char* name) {
    return std::string(name) == "STEPWATCH_OUTPUT_ROOT" ? path.c_str() : nullptr;
  };
  Limits of_program;
  of_program.output_root = directory / "root";
  CHECK_FALSE(LimitsInForce(of_program, sources).ok());
}

TEST_CASE("a limit that cannot be understood keeps the monitor from starting") {
  const auto why = [](const char* name, const char* text) {
    return LimitsInForce({}, Environment({{name, text}})).status().message();
  };
  CHECK(why("STEPWATCH_BYTES_MAX", "lots") ==
        "the limit STEPWATCH_BYTES_MAX=lots is invalid; accepted: a number of bytes above 0, such as 500M or 20G, or "
        "unset");
  CHECK(why("STEPWATCH_BYTES_MAX", "0") != "");
  CHECK(why("STEPWATCH_ROWS_PER_STEP_MAX", "1e6") != "");
  CHECK(Has(why("STEPWATCH_FORMATS", "csv,parquet"), "of csv, tensorboard, api"));
  CHECK(why("STEPWATCH_FORMATS", "csv,") != "");
  Limits of_program;
  of_program.formats = {OutputFormat::kCsv};
  CHECK(LimitsInForce(of_program, Environment({{"STEPWATCH_FORMATS", "api"}}))
            .status()
            .message()
            .find("no format is allowed by both") == 0);
  const Variable variable("STEPWATCH_QUEUE_BYTES_MAX", "?");
  Job job(ConfigText(Off()));
  CHECK_FALSE(job.Create().ok());
}

TEST_CASE("a root that can be neither opened nor made keeps the monitor from starting") {
  Job job(ConfigText(Off()));
  job.options.limits.output_root = job.config_path + "/below";
  CHECK(job.Create().message().find("the output root " + job.options.limits.output_root + " cannot be used: ") == 0);
}

}  // namespace
}  // namespace stepwatch::testing
