#include "controller/cli/plan.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "controller/cli/find_job.h"
#include "controller/control_socket/json_values.h"
#include "controller/control_socket/plan_preview.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::cli {
namespace {
using control_socket::PlanPreview;
using testing::Has;

PlanPreview Differing() {
  PlanPreview preview;
  preview.state = PlanPreview::State::kDiffers;
  preview.effect = PlanPreview::Effect::kCollects;
  preview.compared_with = PlanPreview::ComparedWith::kPlan;
  preview.differences = {{"step_interval", "1", "10"},
                         {"ops", R"(["norm","max"])", R"(["norm","std"])"},
                         {"targets", R"(["fc"])", R"(["fc","head"])"}};
  preview.sites = {{SiteKind::kActv, 4, 0, 2}, {SiteKind::kGradReduced, 0, 3, 0}};
  preview.running =
      control_socket::PlanSide{.config_sha256 = "abc", .plan_id = 3, .collect_times = 50, .cost = {5, 10, 2'000'000}};
  preview.proposed = control_socket::PlanSide{
      .config_sha256 = "abc", .collect_times = 100, .step_interval = 10, .cost = {6, 12, 2'000'000}};
  preview.measured = control_socket::MeasuredPlan{2, 10, 0.015};
  return preview;
}

TEST_CASE("what would change is shown by key, by hook and by cost") {
  Json answer = PlanPreviewJson(Differing());
  answer["sites"][0]["seconds_per_collected_step"] = nullptr;
  answer["sites"][1]["seconds_per_collected_step"] = 0.00125;
  CHECK(PreviewText("7-1", answer) ==
        "differs     job 7-1, compared with the running plan 3\n"
        "if saved    a new window begins at the next step, 100 steps collected, one in 10\n"
        "\n"
        "- step_interval  1\n"
        "+ step_interval  10\n"
        "- ops            \"max\"\n"
        "+ ops            \"std\"\n"
        "+ targets        \"head\"\n"
        "\n"
        "SITES         ADDED  REMOVED  KEPT  MEASURED\n"
        "actv          +4     -        2     unknown\n"
        "grad_reduced  -      -3       -     1.250 ms per step\n"
        "\n"
        "per collected step: 5 -> 6 sites, 10 -> 12 rows, 2.0 MB of parameters, gradients and moments read (plus "
        "activations)\n"
        "measured: a collected step of plan 2 took 1.500 ms of training time\n");
}

TEST_CASE("a cost that is not known is left out, and long lists are cut") {
  PlanPreview preview = Differing();
  preview.measured = {};
  Json long_list = Json::array();
  for (int i = 0; i < 30; ++i) long_list.push_back(i);
  preview.differences = {{"module_ranks", "[]", long_list.dump()}};
  const std::string text = PreviewText("7-1", PlanPreviewJson(preview));
  CHECK_FALSE(Has(text, "measured"));
  CHECK(Has(text, "+ module_ranks  9\n+ module_ranks  and 20 more\n"));
  preview.differences = {{"ops", R"(["norm","max"])", R"(["max","norm"])"}};
  CHECK(Has(PreviewText("7-1", PlanPreviewJson(preview)), "~ ops  same entries, different order\n"));
}

TEST_CASE("a stop, a static job and a job with nothing to do have texts of their own") {
  PlanPreview preview = Differing();
  preview.effect = PlanPreview::Effect::kStops;
  preview.proposed = {};
  CHECK(Has(PreviewText("7-1", PlanPreviewJson(preview)), "if saved    collecting stops at the next step\n"));
  CHECK(Has(PreviewText("7-1", PlanPreviewJson(preview)), "5 -> 0 sites"));
  preview.effect = PlanPreview::Effect::kAtRestart;
  CHECK(Has(PreviewText("7-1", PlanPreviewJson(preview)), "the job reads the file when it starts"));
  PlanPreview same;
  same.compared_with = PlanPreview::ComparedWith::kFile;
  CHECK(PreviewText("7-1", PlanPreviewJson(same)) ==
        "same        job 7-1, compared with its config file (no plan is running)\n"
        "if saved    the collection does not change\n");
}

TEST_CASE("a preview of any shape is shown as far as it goes, and cannot write to the terminal") {
  for (const char* odd : {"{}", R"({"differences": [3, {"key": 1}, {"was": 1}], "sites": [[], 7], "running": []})",
                          R"({"differences": {"a": 1}, "proposed": {"sites": "x"}, "measured": 3})"})
    CHECK(Has(PreviewText("7-1", Json::parse(odd)), "job 7-1"));
  Json answer = PlanPreviewJson(Differing());
  answer["differences"][0]["now"] = "\x1b[2J\r\n";
  answer["sites"][0]["kind"] = "\x1b[2J";
  CHECK_FALSE(Has(PreviewText("7-1", answer), "\x1b"));
  CHECK_FALSE(Has(PreviewText("7-1", answer), "\r"));
}

TEST_CASE("of the jobs that watch a file the first rank is asked") {
  const auto job = [](const std::string& name, int rank, const std::string& path) {
    control_socket::FoundJob found;
    found.name = name;
    found.status = Json{{"rank", rank}, {"config_path", path}}.dump();
    return found;
  };
  const testing::TemporaryDirectory directory;
  const std::string file = directory / "a.json", other = directory / "b.json";
  for (const std::string& path : {file, other}) testing::WriteByRename(path, "{}");
  const std::vector<control_socket::FoundJob> jobs{job("5-1", 1, file), job("4-1", 0, file), job("6-1", 0, other),
                                                   job("8-1", 0, ""), control_socket::FoundJob()};
  CHECK(JobThatWatches(jobs, file)->name == "4-1");
  CHECK(JobThatWatches(jobs, directory / "./b.json")->name == "6-1");
  std::filesystem::create_symlink(file, directory / "link.json");
  CHECK(JobThatWatches(jobs, directory / "link.json")->name == "4-1");
  CHECK_FALSE(JobThatWatches(jobs, directory / "c.json"));
  CHECK_FALSE(JobThatWatches({}, file));
  CHECK(JobForFile(jobs, file).value().name == "4-1");
  CHECK(JobForFile({jobs[0]}, directory / "c.json").value().name == jobs[0].name);
  CHECK(JobForFile(jobs, directory / "c.json").status().code() == StatusCode::kInvalid);
}

}  // namespace
}  // namespace stepwatch::cli
