#include "src/offline/workers.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::offline {
namespace {

TEST_CASE("every task runs once, on however many threads") {
  const int threads = GENERATE(1, 3, 128);
  std::atomic<int> runs{0};
  const std::vector<Task> tasks(50, [&runs](WorkState*) {
    ++runs;
    return Status();
  });
  CHECK(RunTasks(threads, tasks, "testing", 0, {}).ok());
  CHECK(runs == 50);
  CHECK(RunTasks(threads, {}, "testing", 0, {}).ok());
}

TEST_CASE("an error or an exception of one task fails the whole call, and no further one begins") {
  const bool throws = GENERATE(true, false);
  std::atomic<int> runs{0};
  std::vector<Task> tasks;
  tasks.push_back([throws](WorkState*) -> Status {
    if (throws) throw std::runtime_error("lost");
    return Status(StatusCode::kInvalid, "lost");
  });
  for (int i = 0; i < 10; ++i)
    tasks.push_back([&runs](WorkState*) {
      ++runs;
      return Status();
    });
  const Status status = RunTasks(1, tasks, "testing", 0, {});
  CHECK(!status.ok());
  CHECK(status.message().find("lost") != std::string::npos);
  CHECK(runs == 0);
}

TEST_CASE("a progress function that returns false stops tasks that call it") {
  const std::vector<Task> tasks(2, [](WorkState* state) {
    while (state->Advance(1)) {
    }
    return Status(StatusCode::kInternal, "the stop is the reason, not what it led to");
  });
  const Status status = RunTasks(2, tasks, "testing", 10, [](const Progress& progress) {
    CHECK(progress.stage == "testing");
    CHECK(progress.total == 10);
    CHECK(progress.done <= 10);
    return false;
  });
  CHECK(status.code() == StatusCode::kUnavailable);
}

TEST_CASE("an exception of the progress function comes out after the tasks have ended") {
  std::atomic<bool> ended{false};
  const std::vector<Task> tasks(1, [&ended](WorkState* state) {
    while (state->Advance(1)) {
    }
    ended = true;
    return Status();
  });
  CHECK_THROWS_AS(RunTasks(1, tasks, "testing", 10, [](const Progress&) -> bool { throw std::runtime_error("x"); }),
                  std::runtime_error);
  CHECK(ended);
}

}  // namespace
}  // namespace stepwatch::offline
