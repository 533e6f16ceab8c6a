#include "controller/cli/stepwatchd_client.h"

#include "tests/catch.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::cli {
namespace {
TEST_CASE("an id becomes one piece of a URL") {
  CHECK(UrlPiece("run-1_a~") == "run-1_a~");
  CHECK(UrlPiece("a/b?c=d&e f%\xc3\xa9..") == "a%2Fb%3Fc%3Dd%26e%20f%25%C3%A9%2E%2E");
}

TEST_CASE("stepwatchd is looked for beside the sockets of jobs, and the error shows where and how to start one") {
  const testing::TemporaryDirectory directory;
  const testing::Variable named("STEPWATCH_RUNTIME_DIR", directory.path());
  CHECK(StepwatchdSockets(7) == std::vector<std::string>{directory.path() + "/stepwatchd.sock",
                                                         "/run/user/7/stepwatch/stepwatchd.sock",
                                                         "/tmp/stepwatch-7/stepwatchd.sock"});
  const Status status = FindStepwatchd(directory.path() + "/nobody.sock").status();
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(status.message().find(directory.path() + "/nobody.sock: no such file") != std::string::npos);
  CHECK(status.message().find("stepwatchd run") != std::string::npos);
  CHECK(FailOperations(status, false) == kExitNoStepwatchd);
}

const std::vector<KnownId> kKnown = {{"1a2b", "stuck in r1"}, {"1a2c", "loss_spike in r2"}, {"9", ""}, {"95", ""}};

TEST_CASE("the beginning that one id has means that id, and an id that others begin with means itself") {
  for (const char* id : {"1a2b", "1a2c", "95", "9"}) CHECK(ResolveId(id, kKnown, "incident").value() == id);
}

TEST_CASE("a beginning that several ids have is refused with all of them") {
  const Status status = ResolveId("1a", kKnown, "incident").status();
  CHECK(status.code() == StatusCode::kInvalid);
  CHECK(status.message() == "the id of 2 incidents begins with \"1a\": 1a2b (stuck in r1), 1a2c (loss_spike in r2)");
  CHECK(ResolveId("", kKnown, "incident").status().code() == StatusCode::kInvalid);
}

TEST_CASE("a beginning that no id has is not found, and cannot steer a terminal") {
  const Status status = ResolveId("\x1b[2J", kKnown, "run").status();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message() == "stepwatchd has no run with the id prefix \"\\x1b[2J\"");
}

}  // namespace
}  // namespace stepwatch::cli
