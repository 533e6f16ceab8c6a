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

TEST_CASE("stepwatchd is looked for where the sockets of jobs lie, and the refusal says where and how to start one") {
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

}  // namespace
}  // namespace stepwatch::cli
