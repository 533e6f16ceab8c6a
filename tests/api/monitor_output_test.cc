// The content of the files.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/base/file_system.h"
#include "tests/api/job.h"
#include "tests/api/manifest.h"
#include "tests/variable.h"

namespace stepwatch::testing {
namespace {

std::string Text(const std::map<int64_t, int>& rows_by_step) {
  std::string text;
  for (const auto& [step, rows] : rows_by_step) text += std::to_string(step) + ": " + std::to_string(rows) + " rows, ";
  return text;
}

TEST_CASE("module rows come for each micro-batch, gradients once a step or once a micro-batch") {
  StartedJob job(ConfigText({.collect_times = 1}, ", \"xy_distribution\": true"), 3, 4);
  job.TrainSteps(2);
  job.Settle();
  job.Edit(ConfigText({.collect_times = 1}, ", \"monitor_mbs_grad\": true"));
  job.TrainSteps(2);
  job.Close();
  CHECK(Text(job.RowsByStep("actv")) == Text({{1, 3 * 2 * 4}}));
  CHECK(Text(job.RowsByStep("actv_grad")) == Text({{1, 3 * 2 * 4}}));
  CHECK(Text(job.RowsByStep("grad_unreduced")) == Text({{1, 3}, {3, 3 * 4}}));
  CHECK(Text(job.RowsByStep("grad_reduced")) == Text({{1, 3}, {3, 3}}));
  const Table table = ReadTable(job.output_dir + "/actv_1-1.csv");
  CHECK(table[0] == std::vector<std::string>{"vpp_stage", "name", "step", "micro_step", "norm", "shape", "dtype"});
}

TEST_CASE("the rows of a step are in the files soon after it, before anything is closed") {
  StartedJob job(ConfigText({.collect_times = 100}));
  job.TrainSteps(4);
  const std::string directory = job.monitor->GetStatus().output_dir;
  CHECK(Eventually([&] { return ReadTable(directory + "/grad_reduced_3-3.csv").size() == 3; }));
}

TEST_CASE("the manifest has the steps of each plan, and the sites of the model") {
  Job job(ConfigText({.collect_times = 2}));
  job.options.run_id = "6170f1c3aaaaaaaabbbbbbbbcccccccc";
  job.options.rank = 3;
  job.options.world_size = 4;
  job.Start();
  job.TrainSteps(3);
  job.Settle();
  job.Edit(ConfigText({.collect_times = 1, .gradients = false}));
  job.TrainSteps(3);
  job.Close();
  const nlohmann::json manifest = ManifestOf(job);
  CHECK(manifest["run_id"] == "6170f1c3aaaaaaaabbbbbbbbcccccccc");
  CHECK(manifest["rank"] == 3);
  REQUIRE(manifest["plans"].size() == 2);
  CHECK(manifest["plans"][0]["first_step"] == 1);
  CHECK(manifest["plans"][0]["last_step"] == 2);
  CHECK(manifest["plans"][0]["state"] == "drained");
  CHECK(manifest["plans"][0]["ledger"]["written"] == 2 * 2 * 2);
  CHECK(Has(manifest["plans"][0]["write_back"].get<std::string>(), "false"));
  CHECK(manifest["plans"][1]["first_step"] == 4);
  CHECK(manifest["sites"]["parameters"].size() == 2);
  const std::string name = std::filesystem::path(job.output_dir).filename().string();
  CHECK(name.substr(name.find("-rank")) == "-rank3-6170f1c3");
}

// A file system that has no room for a manifest until somebody makes some.
class NoRoomForManifest final : public base::FileSystemWrapper {
 public:
  int Rename(const char* from, const char* to) override {
    if (!has_room && std::string_view(to).find("manifest.json") != std::string_view::npos) return errno = ENOSPC, -1;
    return FileSystemWrapper::Rename(from, to);
  }

  std::atomic<bool> has_room{false};
};

TEST_CASE("a manifest that cannot be written is reported once, tried again, and there in the end") {
  NoRoomForManifest files;
  Job job(ConfigText({.collect_times = 2}));
  job.Start(files);
  job.TrainSteps(4);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(job.Count(EventKind::kDegraded) == 1);
  CHECK(job.Events(EventKind::kDegraded)[0].message.find("manifest.json: ") == 0);
  files.has_room = true;
  CHECK(job.WaitFor(EventKind::kRecovered));
  job.Close();
  CHECK(ManifestOf(job)["plans"][0]["state"] == "drained");
}

TEST_CASE("print_struct writes the structure and the run goes on") {
  StartedJob job(ConfigText({.collect_times = 1}, ", \"print_struct\": true"));
  job.TrainSteps(3);
  job.Close();
  const auto structure =
      nlohmann::json::parse(Contents(job.options.output_dir + "/module_struct/rank0/module_struct.json"));
  CHECK(structure.size() == 2);
  CHECK(structure.contains("0:layers.0"));
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("a rank that module_ranks leaves out writes no file, not even of alarms, counts steps and writes back") {
  const std::string dump =
      R"(, "alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 0}}], "dump": true})";
  StartedJob job(ConfigText({.collect_times = 2}, ", \"module_ranks\": [1]" + dump));
  job.TrainSteps(4);
  job.Settle();
  CHECK_FALSE(std::filesystem::exists(job.options.output_dir));
  CHECK(Has(Contents(job.config_path), ":\tfalse"));
  CHECK(job.Events(EventKind::kFinished).at(0).collected == 2);
  job.Edit(ConfigText({.collect_times = 1}, ", \"module_ranks\": [0, 1]"));
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{5});
}

TEST_CASE("append_output lets a resumed run write into the directory of the earlier one") {
  Job first(ConfigText({.collect_times = 2}));
  first.Start();
  first.TrainSteps(3);
  first.Close();

  const std::string range = ", \"append_output\": [\"Jan01_00-00-00\", \"Dec31_23-59-59\"]";
  Job second(ConfigText({.collect_times = 2}, range));
  second.options.output_dir = first.options.output_dir;
  second.options.start_iteration = 2;
  second.counts_rows = false;
  second.Start();
  second.TrainSteps(3);
  second.Close();
  CHECK(second.output_dir == first.output_dir);
  CHECK(std::filesystem::exists(std::filesystem::path(first.output_dir) / "stepwatch-manifest-1.json"));
  CHECK(std::filesystem::exists(std::filesystem::path(first.output_dir) / "manifest.json"));
  CHECK(second.RowsByStep("grad_reduced") == std::map<int64_t, int>{{1, 2}, {2, 2}, {3, 2}, {4, 2}});
  CHECK(second.Count(EventKind::kNote) == 1);
}

TEST_CASE("append_output without such a directory is noted, and a new one is used") {
  StartedJob job(ConfigText({.collect_times = 1}, ", \"append_output\": [\"Jan01_00-00-00\", \"Jan01_00-00-01\"]"));
  job.TrainSteps(2);
  job.Close();
  REQUIRE(job.Count(EventKind::kNote) == 1);
  CHECK(Has(job.Events(EventKind::kNote)[0].message, "a new one is used"));
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("values below their range are replaced, with a warning") {
  Job job(ConfigText({.collect_times = 1}));
  job.options.grad_acc_steps = 0;
  job.options.start_iteration = -5;
  job.Start();
  CHECK(job.monitor->step() == 0);
  REQUIRE(job.Count(EventKind::kWarning) == 1);
  CHECK(Has(job.Events(EventKind::kWarning)[0].message, "start_iteration -5"));
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("the environment decides what Options leave open") {
  Job job(ConfigText({.collect_times = 1}));
  job.options.dynamic.reset();
  const std::string base = job.options.output_dir;
  job.options.output_dir.clear();
  const Variable dynamic("DYNAMIC_MONITOR", "True"), output("MONITOR_OUTPUT_DIR", base);
  job.Start();
  job.TrainSteps(2);
  job.Close();
  CHECK(job.output_dir.starts_with(base));
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

// Counts the rows.
class Memory final : public Sink {
 public:
  WriteResult Write(const RecordLayout&, const StepFrame& frame) override {
    rows += frame.count;
    return {Status(), frame.count};
  }
  std::atomic<size_t> rows{0};
};

TEST_CASE("further sinks get the same rows") {
  Job job(ConfigText({.collect_times = 2}));
  auto memory = std::make_shared<Memory>();
  job.options.extra_sinks = {memory};
  job.Start();
  job.TrainSteps(4);
  job.Close();
  CHECK(memory->rows == 8);
  CHECK(job.Rows() == 8);
}

}  // namespace
}  // namespace stepwatch::testing
