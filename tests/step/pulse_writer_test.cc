#include "src/step/pulse_writer.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "src/base/sealed_memory.h"
#include "tests/catch.h"

namespace stepwatch::step {
namespace {

using Clock = PulseWriter::Clock;
using vocabulary::Pulse;
using vocabulary::PulsePage;

// A writer, and its page as somebody else maps it.
struct Watched {
  explicit Watched(int64_t first_step = 0) : writer(first_step) {
    PulseWriter::Setup setup;
    setup.process = base::ThisProcess();
    setup.run_id = "run-1";
    setup.rank = 2;
    setup.world = 4;
    REQUIRE(writer.Open(setup).ok());
    auto mapped = base::MapSealed(writer.page_fd(), sizeof(PulsePage), vocabulary::kPulseBytesMax);
    REQUIRE(mapped.ok());
    mapping = std::move(mapped).value();
  }
  const PulsePage& page() const { return *static_cast<const PulsePage*>(mapping.data()); }
  Pulse Read() const {
    const auto read = vocabulary::ReadPulse(page(), mapping.bytes());
    REQUIRE(read.status().ToString() == "ok");
    return read.value();
  }
  std::vector<ReportEntry> Entries() {
    std::vector<ReportEntry> entries;
    for (ReportEntry entry; writer.Pop(&entry);) entries.push_back(entry);
    return entries;
  }

  PulseWriter writer;
  base::Mapping mapping;
};

Clock::time_point At(int64_t ns) {
  return Clock::time_point(std::chrono::nanoseconds(ns));
}

TEST_CASE("a pulse identifies its process, and follows the ends of steps") {
  Watched watched(10);
  Pulse pulse = watched.Read();
  CHECK(pulse.process.pid == ::getpid());
  CHECK(pulse.process == base::ThisProcess());
  CHECK(pulse.run_id == "run-1");
  CHECK(pulse.rank == 2);
  CHECK(pulse.world == 4);
  CHECK(pulse.step == 9);
  CHECK(pulse.boundary_ns > 0);
  CHECK(pulse.phase.phase == Phase::kInit);
  CHECK_FALSE(pulse.module.has_value());
  watched.writer.EndStep(10, At(5000));
  watched.writer.SetCollecting(true);
  watched.writer.SetWallOffset(std::chrono::seconds(3));
  pulse = watched.Read();
  CHECK(pulse.step == 10);
  CHECK(pulse.boundary_ns == 5000);
  CHECK(std::abs(pulse.boundary_unix() - 3.000005) < 1e-9);
  CHECK(pulse.collecting);
  CHECK(pulse.phase.phase == Phase::kTrain);
}

TEST_CASE("a reader never sees the step of one end with the time of another") {
  Watched watched;
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    for (int64_t step = 0; step < 200000; ++step) watched.writer.EndStep(step, At(7 * step));
    is_over = true;
  });
  int64_t last = -1;
  bool is_whole = true, is_forward = true;
  while (!is_over) {
    const auto read = vocabulary::ReadPulse(watched.page(), watched.mapping.bytes());
    if (!read.ok()) continue;  // the writer was faster at every look
    if (read.value().step < 0) continue;
    is_whole = is_whole && read.value().boundary_ns == 7 * read.value().step;
    is_forward = is_forward && read.value().step >= last;
    last = read.value().step;
  }
  writer.join();
  CHECK(is_whole);
  CHECK(is_forward);
  CHECK(watched.Read().step == 199999);
}

TEST_CASE("the module that was entered or left last is there until the step is over") {
  Watched watched;
  REQUIRE(watched.writer.SetModules({"0:", "0:fc"}).ok());
  watched.writer.MarkModule(1, true, 3);
  Pulse pulse = watched.Read();
  REQUIRE(pulse.module.has_value());
  CHECK(pulse.module->module == 1);
  CHECK(pulse.module->entered);
  CHECK(pulse.module->micro_batch == 3);
  CHECK(pulse.module->generation == pulse.names_generation);
  watched.writer.MarkModule(1, false, 3);
  CHECK_FALSE(watched.Read().module->entered);
  watched.writer.EndStep(0, Clock::now());
  CHECK_FALSE(watched.Read().module.has_value());
  // A model that has grown has another table, and marks of the old one are gone.
  watched.writer.MarkModule(1, true, 0);
  REQUIRE(watched.writer.SetModules({"0:", "0:fc", "0:head"}).ok());
  CHECK_FALSE(watched.Read().module.has_value());
  CHECK(watched.Read().names_generation == pulse.names_generation + 1);
}

TEST_CASE("phases are reported with their expiry, and the first step's end turns init into train once") {
  Watched watched;
  watched.writer.EndStep(0, Clock::now());
  CHECK(watched.writer.phase().phase == Phase::kTrain);
  const PhaseMark before = watched.writer.SetPhase({Phase::kEval, 0});
  CHECK(before.phase == Phase::kTrain);
  watched.writer.EndStep(1, Clock::now());
  CHECK(watched.Read().phase.phase == Phase::kEval);
  const int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
  (void)watched.writer.SetPhase({Phase::kPaused, now + 60000});
  CHECK(watched.Read().phase.expires_ms == now + 60000);
  std::vector<double> expiries;
  for (const ReportEntry& entry : watched.Entries())
    if (entry.kind == ReportEntry::Kind::kPhase && entry.phase == Phase::kPaused) expiries.push_back(entry.value);
  REQUIRE(expiries.size() == 1);
  CHECK(expiries[0] > 0);
  CHECK(expiries[0] <= 60);
}

TEST_CASE("numbers belong to the step in progress or to the one that is named, and what is unusable is counted") {
  Watched watched(5);
  const std::vector<ReportedNumber> numbers = {{"loss", 2.5}, {"step", 1},
                                               {"", 1},       {std::string_view("x\0y", 3), 1},
                                               {"module", 1}, {"n234567890123456789012345678901234567890", 1}};
  watched.writer.Report(numbers.data(), numbers.size(), kStepInProgress);
  const ReportedNumber later{"accuracy", 0.5};
  watched.writer.Report(&later, 1, 3);
  const std::vector<ReportEntry> entries = watched.Entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].step == 5);
  CHECK(entries[0].name.data() == std::string("loss"));
  CHECK(entries[0].value == 2.5);
  CHECK(entries[1].step == 3);
  CHECK(watched.writer.dropped() == 5);
  CHECK(watched.Read().numbers_dropped == 5);
}

TEST_CASE("entries that are not fetched fill the queue and are counted then, to the last one") {
  Watched watched;
  constexpr uint64_t kSteps = PulseWriter::kQueuePlaces + 1000;
  for (uint64_t i = 0; i < kSteps; ++i) watched.writer.EndStep(static_cast<int64_t>(i), Clock::now());
  CHECK(watched.Entries().size() + watched.writer.dropped() == kSteps + 1);  // and the change to train
  CHECK(watched.Read().step == kSteps - 1);
}

TEST_CASE("threads that report at once lose nothing and mix nothing up") {
  Watched watched;
  constexpr int kThreads = 4, kEach = 1000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&watched, t] {
      const std::string name = "thread" + std::to_string(t);
      for (int i = 0; i < kEach; ++i) {
        const ReportedNumber number{name, static_cast<double>(i)};
        watched.writer.Report(&number, 1, i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> next(kThreads, 0);
  bool in_order = true;
  for (const ReportEntry& entry : watched.Entries()) {
    const auto t = static_cast<size_t>(entry.name[6] - '0');
    in_order = in_order && entry.step == next[t] && entry.value == next[t];
    ++next[t];
  }
  CHECK(in_order);
  CHECK(next == std::vector<int>(kThreads, kEach));
}

TEST_CASE("a forked child leaves the pulse of its parent alone, and does not crash") {
  Watched watched;
  watched.writer.EndStep(0, Clock::now());
  (void)watched.Entries();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    watched.writer.EndStep(77, Clock::now());
    watched.writer.SetCollecting(true);
    (void)watched.writer.SetPhase({Phase::kEval, 0});
    watched.writer.MarkModule(1, true, 0);
    const ReportedNumber number{"loss", 1};
    watched.writer.Report(&number, 1, kStepInProgress);
    watched.writer.ReportSignal(15);
    watched.writer.SetEnd(vocabulary::PulseEnd::kOk);
    (void)watched.writer.SetModules({"0:"});
    ::_exit(watched.writer.AddLastWord(1, "{}") ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const Pulse pulse = watched.Read();
  CHECK(pulse.step == 0);
  CHECK_FALSE(pulse.collecting);
  CHECK(pulse.phase.phase == Phase::kTrain);
  CHECK_FALSE(pulse.module.has_value());
  CHECK(pulse.signals == 0);
  CHECK(pulse.end == vocabulary::PulseEnd::kRuns);
  CHECK(vocabulary::ReadLastWords(watched.page()).empty());
  CHECK(watched.Entries().empty());
}

TEST_CASE("a reader keeps the last words, the signal and the end of a process that is gone") {
  base::Mapping mapping;
  {
    Watched watched;
    watched.writer.ReportSignal(10);
    watched.writer.ReportSignal(15);
    REQUIRE(watched.writer.AddLastWord(4, "{\"event\":1}"));
    REQUIRE(watched.writer.AddLastWord(5, "{\"event\":2}", true));
    watched.writer.SetEnd(vocabulary::PulseEnd::kSignal);
    mapping = std::move(watched.mapping);
  }
  const auto& page = *static_cast<const PulsePage*>(mapping.data());
  const auto read = vocabulary::ReadPulse(page, mapping.bytes());
  REQUIRE(read.ok());
  CHECK(read.value().signal == 15);
  CHECK(read.value().signals == 2);
  CHECK(read.value().end == vocabulary::PulseEnd::kSignal);
  const auto words = vocabulary::ReadLastWords(page);
  REQUIRE(words.size() == 2);
  CHECK(words[1].number == 5);
  CHECK(words[1].line == "{\"event\":2}");
}

TEST_CASE("last words are kept until there is no room, and the word of the end has a place of its own") {
  Watched watched;
  const std::string line(1000, 'x');
  int kept = 0;
  while (watched.writer.AddLastWord(1, line)) ++kept;
  CHECK(kept >= 10);
  CHECK(watched.writer.AddLastWord(2, "{\"end\":1}", true));
  CHECK(vocabulary::ReadLastWords(watched.page()).size() == static_cast<size_t>(kept) + 1);
  CHECK(watched.Read().words_dropped == 1);
}

TEST_CASE("without shared memory there is no page, and steps and reports go on") {
  PulseWriter writer(0);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const Status opened = writer.Open({base::ProcessIdentity(), "run", 0, 1, true});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(opened.ok());
  CHECK(writer.page_fd() == -1);
  writer.EndStep(0, Clock::now());
  writer.MarkModule(0, true, 0);
  const ReportedNumber number{"loss", 1};
  writer.Report(&number, 1, 0);
  CHECK_FALSE(writer.AddLastWord(1, "{}"));
  ReportEntry entry;
  int entries = 0;
  while (writer.Pop(&entry)) ++entries;
  CHECK(entries == 3);  // the change to train, the step, the number
}

}  // namespace
}  // namespace stepwatch::step
