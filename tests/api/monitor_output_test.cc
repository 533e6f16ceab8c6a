// What the files hold.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/base/file_system.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

nlohmann::json Manifest(const Job& job) {
  return nlohmann::json::parse(Contents(job.output_dir + "/manifest.json"));
}

std::string Text(const std::map<int64_t, int>& rows_by_step) {
  std::string text;
  for (const auto& [step, rows] : rows_by_step) text += std::to_string(step) + ": " + std::to_string(rows) + " rows, ";
  return text;
}

TEST_CASE("module rows come for each micro-batch, gradients once a step or once a micro-batch") {
  Job job(ConfigText({.collect_times = 1}, ", \"xy_distribution\": true"), 3, 4);
  job.Start();
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
  Job job(ConfigText({.collect_times = 100}));
  job.Start();
  job.TrainSteps(4);
  const std::string directory = job.monitor->GetStatus().output_dir;
  CHECK(Eventually([&] { return ReadTable(directory + "/grad_reduced_3-3.csv").size() == 3; }));
}

TEST_CASE("the manifest tells which plan collected what, and what there is to watch") {
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
  const auto manifest = Manifest(job);
  CHECK(manifest["run_id"] == "6170f1c3aaaaaaaabbbbbbbbcccccccc");
  CHECK(manifest["rank"] == 3);
  REQUIRE(manifest["plans"].size() == 2);
  CHECK(manifest["plans"][0]["first_step"] == 1);
  CHECK(manifest["plans"][0]["last_step"] == 2);
  CHECK(manifest["plans"][0]["state"] == "drained");
  CHECK(manifest["plans"][0]["ledger"]["written"] == 2 * 2 * 2);
  CHECK(manifest["plans"][0]["write_back"].get<std::string>().find("false") != std::string::npos);
  CHECK(manifest["plans"][1]["first_step"] == 4);
  CHECK(manifest["sites"]["parameters"].size() == 2);
  const std::string name = std::filesystem::path(job.output_dir).filename().string();
  CHECK(name.substr(name.find("-rank")) == "-rank3-6170f1c3");
}

TEST_CASE("the manifest tells which plans never began") {
  Job job(ConfigText(Off()));
  job.Start();
  job.Edit(ConfigText({.collect_times = 1}));
  job.Edit(ConfigText(Off()));
  job.output_dir = job.monitor->GetStatus().output_dir;
  const std::string path = job.output_dir + "/manifest.json";
  CHECK(Eventually([&] { return Contents(path).find(R"("state": "superseded")") != std::string::npos; }));
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

TEST_CASE("a manifest that cannot be written is told once, tried again, and there in the end") {
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
  CHECK(Manifest(job)["plans"][0]["state"] == "drained");
}

TEST_CASE("print_struct writes the structure and the run goes on") {
  Job job(ConfigText({.collect_times = 1}, ", \"print_struct\": true"));
  job.Start();
  job.TrainSteps(3);
  job.Close();
  const auto structure =
      nlohmann::json::parse(Contents(job.options.output_dir + "/module_struct/rank0/module_struct.json"));
  CHECK(structure.size() == 2);
  CHECK(structure.contains("0:layers.0"));
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("a rank that module_ranks leaves out writes nothing, counts all the same and writes back") {
  Job job(ConfigText({.collect_times = 2}, ", \"module_ranks\": [1]"));
  job.Start();
  job.TrainSteps(4);
  job.Settle();
  CHECK_FALSE(std::filesystem::exists(job.options.output_dir));
  CHECK(Contents(job.config_path).find(":\tfalse") != std::string::npos);
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

TEST_CASE("append_output without such a directory says so and uses a new one") {
  Job job(ConfigText({.collect_times = 1}, ", \"append_output\": [\"Jan01_00-00-00\", \"Jan01_00-00-01\"]"));
  job.Start();
  job.TrainSteps(2);
  job.Close();
  REQUIRE(job.Count(EventKind::kNote) == 1);
  CHECK(job.Events(EventKind::kNote)[0].message.find("a new one is used") != std::string::npos);
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("values below their range are replaced, with a warning") {
  Job job(ConfigText({.collect_times = 1}));
  job.options.grad_acc_steps = 0;
  job.options.start_iteration = -5;
  job.Start();
  CHECK(job.monitor->step() == 0);
  REQUIRE(job.Count(EventKind::kWarning) == 1);
  CHECK(job.Events(EventKind::kWarning)[0].message.find("start_iteration -5") != std::string::npos);
  job.TrainSteps(2);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

TEST_CASE("the environment decides what Options leave open") {
  Job job(ConfigText({.collect_times = 1}));
  job.options.dynamic.reset();
  const std::string base = job.options.output_dir;
  job.options.output_dir.clear();
  ::setenv("DYNAMIC_MONITOR", "True", 1);
  ::setenv("MONITOR_OUTPUT_DIR", base.c_str(), 1);
  job.Start();
  ::unsetenv("DYNAMIC_MONITOR");
  ::unsetenv("MONITOR_OUTPUT_DIR");
  job.TrainSteps(2);
  job.Close();
  CHECK(job.output_dir.rfind(base, 0) == 0);
  CHECK(job.Steps("grad_reduced") == Steps{1});
}

// Keeps what it is given.
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
