#include "controller/cli/find_job.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::cli {
namespace {
const std::vector<control_socket::FoundJob> kJobs = {
    {"12-1", "/run/12-1.sock", 12, R"({"config_path": "/a/config.json", "run_id": "abcdef"})", ""},
    {"12-2", "/run/12-2.sock", 12, R"({"config_path": "/b/config.json", "run_id": "abc123"})", ""},
    {"7-1", "/run/7-1.sock", 7, "", "it has not answered in time"},
    {"8-1", "/run/8-1.sock", 8, R"({"config_path": 3, "run_id": null})", ""}};

TEST_CASE("a job is meant by its name, its pid, its socket, its config file or the beginning of its run id") {
  const auto path = [](const std::string& wanted) { return ChooseJob(kJobs, wanted, "/b").value().path; };
  CHECK(path("12-2") == "/run/12-2.sock");
  CHECK(path("7") == "/run/7-1.sock");
  CHECK(path("/run/8-1.sock") == "/run/8-1.sock");
  CHECK(path("/b/config.json") == "/run/12-2.sock");
  CHECK(path("config.json") == "/run/12-2.sock");
  CHECK(path("abcd") == "/run/12-1.sock");
}

TEST_CASE("what means several jobs, or none, is refused with the names that there are") {
  for (const char* wanted : {"", "12", "abc"}) {
    const Status several = ChooseJob(kJobs, wanted, "/b").status();
    CHECK(several.code() == StatusCode::kInvalid);
    CHECK(several.message().find("12-1, 12-2") != std::string::npos);
  }
  const Status none = ChooseJob(kJobs, "x\x1b[2J", "/").status();
  CHECK(none.code() == StatusCode::kUnavailable);
  CHECK(none.message() == "no job matches \"x\\x1b[2J\"; running jobs: 12-1, 12-2, 7-1, 8-1");
  CHECK(ChooseJob({}, "", "/").status().code() == StatusCode::kUnavailable);
}

TEST_CASE("the ranks of one run are one job, and the lowest of them stands for it") {
  const auto rank = [](const std::string& name, int number, const std::string& run) {
    return control_socket::FoundJob{
        name, "/run/" + name + ".sock", 1,
        R"({"config_path": "/a/config.json", "run_id": ")" + run + R"(", "rank": )" + std::to_string(number) + "}", ""};
  };
  const std::vector<control_socket::FoundJob> job = {rank("1-1", 3, "abc"), rank("2-1", 1, "abc"),
                                                     rank("3-1", 2, "abc")};
  CHECK(ChooseJob(job, "", "/").value().name == "2-1");
  CHECK(ChooseJob(job, "/a/config.json", "/").value().name == "2-1");
  CHECK(ChooseJob(job, "3-1", "/").value().name == "3-1");
  CHECK(ChooseJob({job[0], rank("4-1", 0, "def")}, "", "/").status().code() == StatusCode::kInvalid);
  CHECK(ChooseJob({job[0], kJobs[2]}, "", "/").status().code() == StatusCode::kInvalid);
}

control_socket::FoundJob JobOf(const std::string& name, const std::string& config, int rank = 0, bool dynamic = true) {
  return {name, "/run/" + name + ".sock", 0,
          Json({{"config_path", config}, {"dynamic", dynamic}, {"rank", rank}, {"run_id", name}}).dump(), ""};
}

TEST_CASE("a config is changed through the job that watches just that file") {
  const testing::TemporaryDirectory directory;
  const std::string config = directory / "config.json";
  testing::WriteByRename(config, "{}");
  std::filesystem::create_symlink(config, directory / "link.json");
  const std::vector<control_socket::FoundJob> jobs = {JobOf("1-1", directory / "other.json"), JobOf("2-1", config, 1),
                                                      JobOf("3-1", config, 0), JobOf("4-1", config, 2)};
  const std::string here = directory / ".";
  for (const std::string& word : {config, std::string("config.json"), std::string("link.json")}) {
    const EditTarget target = ChooseTarget(jobs, word, here).value();
    CHECK(target.config == word);
    REQUIRE(target.job);
    CHECK(target.job->name == "3-1");  // rank 0
  }
  CHECK_FALSE(ChooseTarget({JobOf("5-1", config, 0, false)}, config, here).value().job);  // static: it does not look
  CHECK_FALSE(ChooseTarget({}, config, here).value().job);
}

TEST_CASE("a config is named by its job as well, and the only job need not be named") {
  const testing::TemporaryDirectory directory;
  const std::vector<control_socket::FoundJob> jobs = {JobOf("1-1", "/a.json"), JobOf("2-1", "/b.json")};
  CHECK(ChooseTarget(jobs, "2-1", "/").value().config == "/b.json");
  CHECK(ChooseTarget({jobs[0]}, "", "/").value().job->name == "1-1");
  CHECK(ChooseTarget(jobs, "", "/").status().code() == StatusCode::kInvalid);
  CHECK(ChooseTarget({}, "", "/").status().code() == StatusCode::kUnavailable);
  const EditTarget missing = ChooseTarget(jobs, "missing.json", directory / ".").value();
  CHECK(missing.config == "missing.json");
  CHECK_FALSE(missing.job);
}

}  // namespace
}  // namespace stepwatch::cli
