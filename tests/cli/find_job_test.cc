#include "controller/cli/find_job.h"

#include "tests/catch.h"

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

TEST_CASE("the only job need not be named") {
  CHECK(ChooseJob({kJobs[2]}, "", "/").value().name == "7-1");
}

}  // namespace
}  // namespace stepwatch::cli
