#include "operations/witness/process_end.h"

#include <boost/asio/executor_work_guard.hpp>

#include "tests/catch.h"
#include "tests/operations/child.h"
#include "tests/operations/fake_proc.h"

namespace stepwatch::operations {
namespace {

using testing::Child;
using testing::FakeProc;
using testing::StatLine;

struct Loop {
  boost::asio::io_context context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{context.get_executor()};

  bool RunUntil(const bool& done) {
    return testing::Eventually([&] {
      context.poll();
      return done;
    });
  }
};

TEST_CASE("a process that is killed is reported before it is reaped") {
  Loop loop;
  const Child child;
  bool has_ended = false;
  const auto end = std::make_shared<ProcessEnd>(loop.context, OpenPidfd(child.ref(), base::FileSystem::Real()),
                                                child.ref(), [&] { has_ended = true; });
  REQUIRE(end->CanTell());
  end->Start();
  loop.context.poll();
  CHECK_FALSE(has_ended);
  child.Send(SIGKILL);
  CHECK(loop.RunUntil(has_ended));
  CHECK(StateOf(child.ref(), base::FileSystem::Real()) == 'Z');
}

TEST_CASE("without a pidfd a look into /proc finds the end, a zombie's too") {
  Loop loop;
  Child child;
  const ProcessRef process = child.ref();
  bool has_ended = false;
  const auto end = std::make_shared<ProcessEnd>(loop.context, base::UniqueFd(), process, [&] { has_ended = true; });
  end->Start();
  end->Look();
  loop.context.poll();
  CHECK_FALSE(has_ended);
  child.Send(SIGKILL);
  CHECK(testing::Eventually([&] {
    end->Look();
    loop.context.poll();
    return has_ended;
  }));
}

TEST_CASE("a process whose pid was used again is gone") {
  FakeProc files;
  files.Set("/proc/4711/stat", StatLine(4711, 'S', 1000));
  const ProcessRef process{4711, 1000};
  CHECK(StateOf(process, files) == 'S');
  files.Set("/proc/4711/stat", StatLine(4711, 'R', 2000));
  CHECK_FALSE(StateOf(process, files));
  CHECK(IsGone(process, files));

  Loop loop;
  bool has_ended = false;
  const auto end = std::make_shared<ProcessEnd>(
      loop.context, base::UniqueFd(), process, [&] { has_ended = true; }, files);
  end->Start();
  loop.context.poll();
  CHECK(has_ended);
}

TEST_CASE("no pidfd is taken of another process with the same pid") {
  const Child child;
  const ProcessRef earlier{child.pid(), child.ref().started - 1};
  CHECK(OpenPidfd(child.ref(), base::FileSystem::Real()).valid());
  CHECK_FALSE(OpenPidfd(earlier, base::FileSystem::Real()).valid());
}

TEST_CASE("a stopped watch reports no end") {
  Loop loop;
  Child child;
  bool has_ended = false;
  const auto end = std::make_shared<ProcessEnd>(loop.context, OpenPidfd(child.ref(), base::FileSystem::Real()),
                                                child.ref(), [&] { has_ended = true; });
  end->Start();
  child.Send(SIGKILL);
  child.Reap();
  end->Stop();
  loop.context.poll();
  CHECK_FALSE(has_ended);
}

TEST_CASE("of a process in another container nothing is claimed") {
  Loop loop;
  bool has_ended = false;
  const auto end =
      std::make_shared<ProcessEnd>(loop.context, base::UniqueFd(), std::nullopt, [&] { has_ended = true; });
  end->Start();
  end->Look();
  loop.context.poll();
  CHECK_FALSE(end->CanTell());
  CHECK_FALSE(has_ended);
}

}  // namespace
}  // namespace stepwatch::operations
