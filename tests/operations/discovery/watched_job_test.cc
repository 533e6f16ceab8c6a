#include "operations/discovery/watched_job.h"

#include <sys/ptrace.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "tests/catch.h"
#include "tests/operations/discovery/watch.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;

class NoIo final : public base::IoExecutor {
 public:
  bool Post(std::function<void()>) override { return false; }
};

// A job that is looked at four times a second of its own clock, which the test turns.
struct Looking {
  explicit Looking(const testing::ServingJob& other)
      : job(std::make_shared<WatchedJob>(
            control_socket::FoundSocket{"job", other.path_, other.child_.pid(), ::getuid(), 0}, around,
            WatchedJob::Callbacks{[](const WatchedJob&) {}, [](const WatchedJob&) { return false; },
                                  [](const WatchedJob&) {}})) {}
  ~Looking() { job->Stop(); }

  void Pass(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 250ms) {
      now += 0.25;
      job->Tick();
      loop.run_for(10ms);
    }
  }
  size_t TimesTraced() const {
    return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const Line& line) {
      const Event* event = std::get_if<Event>(&line.what);
      const ProcessStateEvent* state = event ? std::get_if<ProcessStateEvent>(event) : nullptr;
      return state != nullptr && state->state == 't';
    }));
  }

  boost::asio::io_context loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{loop.get_executor()};
  NoIo pulses;
  double now = 1000;
  std::vector<Line> lines;
  JobDependencies around{loop,
                         nullptr,
                         pulses,
                         {},
                         [this](const Line& line) { lines.push_back(line); },
                         [this] { return now; },
                         {},
                         base::FileSystem::Real(),
                         "h1"};
  const std::shared_ptr<WatchedJob> job;
};

TEST_CASE("a process that we trace to see its stacks is not reported as held up, one that somebody else traces is") {
  const testing::TemporaryDirectory directory;
  const testing::ServingJob other(directory, "r1", 0);
  Looking looking(other);
  REQUIRE(testing::Eventually([&] {
    looking.Pass(250ms);
    return looking.job->process().has_value();
  }));
  REQUIRE(::ptrace(PTRACE_SEIZE, other.child_.pid(), nullptr, nullptr) == 0);
  REQUIRE(::ptrace(PTRACE_INTERRUPT, other.child_.pid(), nullptr, nullptr) == 0);
  REQUIRE(testing::Eventually([&] { return StateOf(other.child_.ref(), base::FileSystem::Real()) == 't'; }));
  looking.job->BeginLook();
  looking.Pass(5s);
  CHECK(looking.TimesTraced() == 0);
  looking.job->EndLook();
  looking.Pass(5s);
  CHECK(looking.TimesTraced() > 0);
}

}  // namespace
}  // namespace stepwatch::operations
