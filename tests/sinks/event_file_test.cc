// Event files under calls that fail, each in turn: whole records, and none of a failed append.
#include "src/sinks/event_file.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/hooked_files.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

// Makes call number `at` fail with `error_number`; a failing write, unless interrupted, first takes half of its bytes.
class FailingCalls final : public testing::HookedFiles {
 public:
  explicit FailingCalls(int at = -1, int error_number = 0)
      : HookedFiles([=, this](std::string_view) { return count_++ == at ? error_number : 0; }),
        at_(at),
        error_number_(error_number) {}
  int count() const { return count_; }

  ssize_t Write(int fd, const void* bytes, size_t count) override {
    if (count_ == at_ && error_number_ != EINTR) Real().Write(fd, bytes, count / 2);
    return HookedFiles::Write(fd, bytes, count);
  }

 private:
  const int at_;
  const int error_number_;
  int count_ = 0;
};

std::vector<SummaryEvent> Events(int64_t step) {
  return {{10.0, step, {{"a", 0.5}}}, {10.0, step, {{"b", 1.5}}}};
}

std::string Expected(const std::vector<int64_t>& steps) {
  std::string bytes;
  AppendVersionRecord(10.0, &bytes);
  for (int64_t step : steps)
    for (const SummaryEvent& event : Events(step)) AppendSummaryRecord(event, &bytes);
  return bytes;
}

TEST_CASE("an event file appears at the first append, with its directory, and grows by whole records") {
  TemporaryDirectory base;
  EventFile file(base / "tb", "events.out.tfevents.1.h.2");
  CHECK(ReadDirectory(base / "tb").empty());
  REQUIRE(file.Append(Events(0)).ok());
  CHECK(Contents(file.path()) == Expected({0}));
  REQUIRE(file.Append(Events(1)).ok());
  CHECK(file.path() == base / "tb/events.out.tfevents.1.h.2");
  CHECK(Contents(file.path()) == Expected({0, 1}));
  CHECK(file.Close().ok());
}

TEST_CASE("whatever call fails, one retry brings every event once") {
  int calls_max = 0;
  {
    TemporaryDirectory base;
    FailingCalls calls;
    EventFile file(base / "tb", "e", calls);
    for (int64_t step : {0, 1, 2}) REQUIRE(file.Append(Events(step)).ok());
    calls_max = calls.count();
  }
  REQUIRE(calls_max > 8);
  for (int error_number : {ENOSPC, EIO, EINTR, EFBIG}) {
    for (int at = 0; at < calls_max; ++at) {
      TemporaryDirectory base;
      FailingCalls calls(at, error_number);
      EventFile file(base / "tb", "e", calls);
      for (int64_t step : {0, 1, 2}) {
        const Status first = file.Append(Events(step));
        INFO("call " << at << ", errno " << error_number << ": " << first.ToString());
        if (!first.ok()) REQUIRE(file.Append(Events(step)).ok());
      }
      CHECK(file.Close().ok());
      INFO("call " << at << ", errno " << error_number);
      CHECK(ReadDirectory(base / "tb").size() == 1);
      CHECK(Contents(file.path()) == Expected({0, 1, 2}));
    }
  }
}

TEST_CASE("a full disk and a file grown too big have a code of their own") {
  for (int error_number : {ENOSPC, EFBIG, EIO}) {
    TemporaryDirectory base;
    FailingCalls calls(2, error_number);  // after open and fstat
    EventFile file(base.path(), "e", calls);
    const Status failed = file.Append(Events(0));
    CHECK(failed.code() == (error_number == EIO ? StatusCode::kUnavailable : StatusCode::kExhausted));
    CHECK(failed.message().find("cannot append to " + base / "e") == 0);
  }
}

TEST_CASE("a file without events is not left behind") {
  TemporaryDirectory base;
  {
    FailingCalls calls(2, ENOSPC);
    EventFile file(base.path(), "e", calls);
    CHECK(!file.Append(Events(0)).ok());
  }
  CHECK(ReadDirectory(base.path()).empty());
}

TEST_CASE("a file of that name, somebody else's, stays as it is") {
  TemporaryDirectory base;
  WriteInPlace(base / "e", "theirs");
  EventFile file(base.path(), "e");
  REQUIRE(file.Append(Events(0)).ok());
  CHECK(Contents(base / "e") == "theirs");
  CHECK(Contents(base / "e.1") == Expected({0}));
}

TEST_CASE("a file that was removed or cut is reported once, then the events go to a new one") {
  const bool removed = GENERATE(true, false);
  TemporaryDirectory base;
  EventFile file(base / "tb", "e");
  REQUIRE(file.Append(Events(0)).ok());
  if (removed) {
    std::filesystem::remove_all(base / "tb");
  } else {
    std::filesystem::resize_file(base / "tb/e", 20);
  }
  CHECK(file.Append(Events(1)).code() == StatusCode::kNotFound);
  REQUIRE(file.Append(Events(1)).ok());
  CHECK(Contents(base / "tb/e.1") == Expected({1}));
}

TEST_CASE("event files have names that TensorBoard finds, whatever the name of the host") {
  CHECK(EventFileName(1700000000, "node-1.cluster", 42) == "events.out.tfevents.1700000000.node-1.cluster.42");
  CHECK(EventFileName(1, "a/b c", 2) == "events.out.tfevents.1.a_b_c.2");
}

}  // namespace
}  // namespace stepwatch::sinks
