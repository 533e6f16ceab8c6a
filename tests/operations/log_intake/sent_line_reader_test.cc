#include "operations/log_intake/sent_line_reader.h"

#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/eventually.h"

namespace stepwatch::operations {
namespace {

constexpr double kNow = 1.8e9;

// A reader whose records are kept, and are safe when the test says so.
class Reading {
 public:
  explicit Reading(std::vector<std::string> paths = {}, bool reports_xids = true) {
    SentLineReaderOptions options;
    options.recogniser = std::make_shared<LazyRecogniser>();
    options.wall = [] { return kNow; };
    options.paths = std::move(paths);
    options.take = [this](std::vector<RunRecord> taken, std::function<void()> then) {
      for (RunRecord& each : taken) records.push_back(std::move(each));
      safe.push_back(std::move(then));
    };
    options.processes = [] { return ProcessesOfRuns{{4711, {"r1", 5}}}; };
    options.reports_xids = [reports_xids] { return reports_xids; };
    reader.emplace(loop_, std::move(options));
  }

  bool Send(std::vector<SentLine> lines, size_t bytes = 100) {
    return reader->Take({.bytes = bytes, .lines = [lines] { return lines; }, .then = [this] { ++answered; }});
  }
  bool Until(const std::function<bool()>& holds) {
    return testing::Eventually([&] {
      loop_.restart();
      loop_.poll();
      return holds();
    });
  }
  const RunRecord& Record(size_t i) {
    REQUIRE(Until([&] { return records.size() > i; }));
    return records[i];
  }

  std::vector<RunRecord> records;
  std::vector<std::function<void()>> safe;
  int answered = 0;

 private:
  boost::asio::io_context loop_;

 public:
  std::optional<SentLineReader> reader;
};

SentLine LineOf(const std::string& text, const std::string& source = "/l/a.log") {
  SentLine line;
  line.text = text;
  line.source = source;
  line.t = kNow - 1;
  return line;
}

TEST_CASE("a line has what its sender knows, unless it says so itself") {
  Reading reading;
  SentLine line = LineOf("[rank3]: step 12: loss 2.5");
  line.run = "r1";
  line.rank = 1;
  line.level = logs::Level::kWarning;
  line.component = "trainer";
  line.id = "i1";
  line.host = "n1";
  REQUIRE(reading.Send({line}));
  const auto& [record, origin] = reading.Record(0);
  CHECK(record.rank == 3);
  CHECK(record.level == logs::Level::kWarning);
  CHECK(record.component == "trainer");
  CHECK(record.id == "i1");
  CHECK(record.host == "n1");
  CHECK(record.t == kNow - 1);
  CHECK(origin.run == "r1");
  CHECK_FALSE(origin.is_late);
}

TEST_CASE("a line with the id of an earlier one is dropped") {
  Reading reading;
  SentLine line = LineOf("hello");
  line.id = "i1";
  REQUIRE(reading.Send({line, line}));
  REQUIRE(reading.Send({line, LineOf("world"), LineOf("world")}));
  REQUIRE(reading.Until([&] { return reading.reader->lines() == 5; }));
  CHECK(reading.records.size() == 3);
  CHECK(reading.reader->repeated() == 2);
}

TEST_CASE("a path names the run and the rank by a pattern") {
  Reading reading({"/l/{run}/rank{rank}.log"});
  REQUIRE(reading.Send({LineOf("a", "/l/job7/rank12.log"), LineOf("b", "/l/job7/x/rank12.log")}));
  CHECK(reading.Record(1).record.message == "b");
  for (const RunRecord& each : reading.records) {
    const bool is_named = each.record.message == "a";
    CHECK(each.origin.run == (is_named ? "job7" : ""));
    CHECK(each.record.rank == 12);
  }
}

TEST_CASE("a line that was written more than a minute ago is late") {
  Reading reading;
  SentLine old = LineOf("old");
  old.t = kNow - 61;
  SentLine unknown = LineOf("unknown");
  unknown.t.reset();
  REQUIRE(reading.Send({old, unknown}));
  (void)reading.Record(1);
  for (const RunRecord& each : reading.records) CHECK(each.origin.is_late == (each.record.message == "old"));
}

TEST_CASE("the lines of a traceback are one record, over several requests") {
  Reading reading;
  REQUIRE(reading.Send({LineOf("Traceback (most recent call last):"), LineOf("  File \"a.py\", line 1, in <module>")}));
  REQUIRE(reading.Send({LineOf("ValueError: bad"), LineOf("2026-11-28 10:00:00 INFO next")}));
  const RunRecord& first = reading.Record(0);
  REQUIRE(first.record.exception);
  CHECK(first.record.exception->type == "ValueError");
}

TEST_CASE("what waits for its last line is passed on at the end") {
  Reading reading;
  REQUIRE(reading.Send({LineOf("Traceback (most recent call last):"), LineOf("ValueError: bad")}));
  reading.reader->Stop();
  REQUIRE(reading.records.size() == 1);
  CHECK(reading.records[0].record.exception);
  CHECK_FALSE(reading.Send({LineOf("later")}));
}

TEST_CASE("no more is taken while too many bytes wait to be safe") {
  Reading reading;
  REQUIRE(reading.Send({LineOf("a")}, SentLineReader::kBytesMax));
  CHECK_FALSE(reading.Send({LineOf("b")}));
  REQUIRE(reading.Until([&] { return !reading.safe.empty(); }));
  CHECK(reading.answered == 0);
  reading.safe[0]();
  CHECK(reading.answered == 1);
  CHECK(reading.Send({LineOf("b")}));
}

TEST_CASE("a line of the kernel belongs to the run of the process that it names") {
  SentLine oom = LineOf("Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB", "kernel");
  SentLine xid = LineOf("NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000008", "kernel");
  SentLine other = LineOf("Out of memory: Killed process 12 (bash) total-vm:1kB, anon-rss:1kB", "kernel");
  for (SentLine* each : {&oom, &xid, &other}) each->is_of_kernel = true;
  for (const bool reports_xids : {true, false}) {
    Reading reading({}, reports_xids);
    REQUIRE(reading.Send({oom, xid, other}));
    (void)reading.Record(2);
    CHECK(reading.records[0].origin.run == "r1");
    CHECK(reading.records[0].origin.rank == 5);
    CHECK(reading.records[1].origin.run == (reports_xids ? "r1" : ""));
    CHECK(reading.records[2].origin.run.empty());
  }
  SentLine of_a_user = oom;
  of_a_user.is_of_kernel = false;
  Reading reading;
  REQUIRE(reading.Send({of_a_user}));
  CHECK(reading.Record(0).origin.run.empty());
}

TEST_CASE("a text of the kernel names its process in several ways") {
  CHECK(ProcessInKernelText("Memory cgroup out of memory: Killed process 12 (python)") == 12);
  CHECK(ProcessInKernelText("oom_reaper: reaped process 12 (python), now anon-rss:0kB") == 12);
  CHECK(ProcessInKernelText("oom-kill:constraint=CONSTRAINT_NONE,task=python,pid=12,uid=0") == 12);
  CHECK(ProcessInKernelText("NVRM: Xid (PCI:0000:3b:00): 31, pid='12', name=python") == 12);
  CHECK_FALSE(ProcessInKernelText("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."));
  CHECK_FALSE(ProcessInKernelText("Killed process x"));
}

TEST_CASE("many records come in pieces and in order, and are answered once all are safe") {
  Reading reading;
  std::vector<SentLine> lines;
  for (int i = 0; i < 2000; ++i) lines.push_back(LineOf("line " + std::to_string(i)));
  REQUIRE(reading.Send(lines));
  REQUIRE(reading.Until([&] { return reading.records.size() == 2000; }));
  for (size_t i = 0; i < lines.size(); ++i) REQUIRE(reading.records[i].record.message == lines[i].text);
  CHECK(reading.safe.size() > 1);
  for (const auto& safe : reading.safe) {
    CHECK(reading.answered == 0);
    safe();
  }
  CHECK(reading.answered == 1);
}

TEST_CASE("many runs at a time lose no record") {
  Reading reading;
  std::vector<SentLine> lines;
  for (int i = 0; i < 200; ++i) {
    lines.push_back(LineOf("Traceback (most recent call last):"));
    lines.back().run = "r" + std::to_string(i);
  }
  REQUIRE(reading.Send(lines));
  reading.reader->Stop();
  CHECK(reading.records.size() == 200);
}

}  // namespace
}  // namespace stepwatch::operations
