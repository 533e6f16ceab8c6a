// Collecting is started and stopped over and over, with requests to the control socket meanwhile: no resource grows.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>

#include "controller/control_socket/beat_log.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/rounds.h"

namespace stepwatch::testing {
namespace {

// More than the rings and lists of a monitor keep: 1000 events, 1000 plans of a manifest.
constexpr int kToFillAll = 1100;

// Sends requests to the control socket without a pause, on a thread of its own.
class Asker {
 public:
  explicit Asker(const http::Client& client) : client_(client), thread_([this] { Ask(); }) {}
  ~Asker() {
    ends_ = true;
    thread_.join();
  }
  int answers() const { return answers_; }
  int failures() const { return failures_; }

 private:
  void Ask() {
    while (!ends_) {
      for (const char* target : {"/v1/status", "/metrics", "/v1/doctor", "/v1/latest/grad_reduced"}) {
        const auto reply = client_.Get(target);
        ++(reply.ok() && reply.value().status == 200 ? answers_ : failures_);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const http::Client client_;
  std::atomic<bool> ends_{false};
  std::atomic<int> answers_{0};
  std::atomic<int> failures_{0};
  std::thread thread_;
};

// While there is no request.
struct Footprint {
  size_t descriptors = EntriesOf("/proc/self/fd");
  size_t threads = EntriesOf("/proc/self/task");
  size_t heap_bytes = ::mallinfo2().uordblks;
};

class StartAndStop {
 public:
  explicit StartAndStop(const std::string& format) : format_(format) {
    job_.counts_rows = false;
    job_.options.output_dir = directory_ / "out";
    job_.options.keep_latest = true;
    job_.Start();
  }

  void Run(int cycles) {
    const Asker asker(sockets_.client());
    for (int i = 0; i < cycles; ++i) {
      // Each time another text: it is another edit.
      const std::string more =
          ", \"format\": \"" + format_ + "\", \"step_count_per_record\": " + std::to_string(i % 7 + 1);
      REQUIRE(job_.Edit(ConfigText({.collect_times = 1000}, more)) == RefreshOutcome::kArmed);
      job_.TrainStep();
      job_.Edit(ConfigText({.dynamic_on = false, .collect_times = 1000}, more));
      job_.TrainStep();
      REQUIRE(job_.WaitFor(EventKind::kDrained));
      REQUIRE(job_.Events(EventKind::kDrained)[0].ledger.balanced());
      REQUIRE(job_.Events(EventKind::kDrained)[0].ledger.written == 4);
      job_.DiscardEvents();
    }
    while (asker.answers() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(asker.failures() == 0);
  }

  // Steps alone, as many as the control socket keeps beats; a question takes them over before they are too many.
  void FillBeats() {
    constexpr size_t kSteps = 1000;
    for (size_t i = 0; i < control_socket::BeatLog::kLinesMax; i += kSteps) {
      for (size_t step = 0; step < kSteps; ++step) job_.TrainStep();
      REQUIRE(sockets_.client().Get("/v1/beats?since=0").ok());
    }
  }

  // The last client has left, and its connection with it.
  Footprint Measure(const Footprint& wanted) const {
    (void)Eventually([&] { return Footprint().descriptors <= wanted.descriptors; });
    job_.monitor->Flush(std::chrono::seconds(10));
    return Footprint();
  }
  Footprint Settled() const {
    Footprint last;
    (void)Eventually([&] {
      const Footprint now;
      const bool is_settled = now.descriptors == last.descriptors && now.heap_bytes == last.heap_bytes;
      last = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return is_settled;
    });
    return last;
  }

 private:
  const std::string format_;
  TemporaryDirectory directory_{PlaceInMemory()};
  const ControlSockets sockets_;
  Job job_{ConfigText(Off())};
};

// The memory that each of the kept events may need for a text with one digit more.
constexpr size_t kHeapSlack = 64 << 10;

// The cycles before the first look at what they leave behind, and in all.
void CheckNothingGrows(const std::string& format, int first, int cycles) {
  StartAndStop job(format);
  if (first >= kToFillAll) job.FillBeats();
  job.Run(first);
  const Footprint before = job.Settled();
  job.Run(cycles - first);
  const Footprint after = job.Measure(before);
  CHECK(after.descriptors <= before.descriptors);
  CHECK(after.threads <= before.threads);
  if (first >= kToFillAll) CHECK(after.heap_bytes <= before.heap_bytes + kHeapSlack);
}

TEST_CASE("collecting is started and stopped thousands of times, and memory, descriptors and threads stay as they are",
          "[slow]") {
  const char* wanted = std::getenv("STEPWATCH_CYCLES");
  // Sanitizers have a heap of their own, of which mallinfo2 knows nothing; so nothing has to be full for its sake.
  const int first = Rounds(kToFillAll);
  CheckNothingGrows("api", first, std::max(2 * first, wanted == nullptr ? 0 : std::atoi(wanted)));
}

TEST_CASE("two hundred windows with files leave no descriptor and no thread behind", "[slow]") {
  CheckNothingGrows("csv", Rounds(50), Rounds(200));
}

}  // namespace
}  // namespace stepwatch::testing
