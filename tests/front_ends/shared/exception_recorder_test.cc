#include "front_ends/shared/exception_recorder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "src/json/json.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::front_end {
namespace {
using testing::ControlSockets;
using testing::TemporaryDirectory;

class NoSpaceLeft : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[gnu::noinline]] void SaveCheckpoint() {
  throw NoSpaceLeft("cannot write shard 3");
}

const ControlSockets* sockets_of_child = nullptr;
std::string reported_in_child;

// The terminate handler before the recorder's: keeps the beats that the control socket returns at that moment.
[[noreturn]] void KeepBeats(const std::string& path) {
  if (sockets_of_child == nullptr) ::_exit(0);
  const Json answer = sockets_of_child->Get("/v1/beats");
  Json events = Json::array();
  for (const Json& line : answer["beats"])
    if (line.contains("event") && line["event"]["kind"] != "start") events.push_back(line["event"]);
  testing::WriteByRename(path, events.dump());
  ::_exit(7);
}

// Returns the events that the control socket of a process reports of its end, which `work` causes on its own thread.
Json EventsAtEnd(const std::function<void()>& work) {
  static std::string path;
  const TemporaryDirectory directory;
  path = directory / "told.json";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const ControlSockets sockets;
    sockets_of_child = &sockets;
    std::set_terminate([] { KeepBeats(path); });
    testing::Job job(testing::ConfigText(testing::Off()));
    job.Start();
    RecordExceptions(job.monitor.get());
    std::thread(work).join();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);  // the handler that was there has run
  return json::Parse(testing::Contents(path)).value();
}

TEST_CASE("an uncaught exception is reported with its type, text and stack, and the handler before runs") {
  const Json events = EventsAtEnd(&SaveCheckpoint);
  REQUIRE(events.size() == 2);
  CHECK(events[0]["kind"] == "exception");
  CHECK(events[0]["type"].get<std::string>().find("NoSpaceLeft") != std::string::npos);
  CHECK(events[0]["message"] == "cannot write shard 3");
  CHECK(events[0]["stack"].get<std::string>().find("front_end_test") != std::string::npos);
  CHECK(events[0]["stack"].get<std::string>().find("__cxa_throw") == std::string::npos);
  CHECK(events[1] == Json({{"kind", "end"}, {"reason", "error"}}));
}

TEST_CASE("the same fault has the same fingerprint in each process, another one another") {
  const auto fingerprint = [](const std::function<void()>& work) {
    return EventsAtEnd(work)[0]["fingerprint"].get<std::string>();
  };
  const std::string one = fingerprint(&SaveCheckpoint);
  CHECK(one.size() == 16);
  CHECK(fingerprint(&SaveCheckpoint) == one);
  CHECK(fingerprint([] { throw std::runtime_error("cannot write shard 3"); }) != one);
}

TEST_CASE("a thrown number, and terminate without an exception, are reported as well") {
  const Json number = EventsAtEnd([] { throw 5; });
  CHECK(number[0]["type"] == "int");
  CHECK(number[0]["message"] == "(the exception has no text)");
  const Json nothing = EventsAtEnd([] { std::terminate(); });
  CHECK(nothing[0]["type"] == "std::terminate");
  CHECK(nothing[0]["message"] == "std::terminate was called without an exception");
}

TEST_CASE("an exception in a forked child of a job is none of the job's") {
  const Json events = EventsAtEnd([] {
    const pid_t child = ::fork();
    if (child == 0) {
      sockets_of_child = nullptr;
      std::thread([] { throw 5; }).join();
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    SaveCheckpoint();
  });
  CHECK(events.size() == 2);
}

}  // namespace
}  // namespace stepwatch::front_end
