#include "operations/store/store.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "operations/store/row_text.h"
#include "tests/catch.h"
#include "tests/operations/store/records.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using testing::AcknowledgedChange;
using testing::ChangeOf;
using testing::LineOf;
using testing::TemporaryDirectory;

std::unique_ptr<Store> OpenAt(const std::string& path) {
  Result<std::unique_ptr<Store>> store = Store::Open({path, ""});
  INFO(store.status().message());
  REQUIRE(store.ok());
  return std::move(store).value();
}

Restored Load(Store& store) {
  Result<Restored> restored = store.Load();
  INFO(restored.status().message());
  REQUIRE(restored.ok());
  return std::move(restored).value();
}

void Write(Store& store, const Batch& batch) {
  const Status status = store.Write(batch);
  INFO(status.message());
  REQUIRE(status.ok());
}

// In the smallest pieces; returns how many they were.
int PruneAll(Store& store, const StoreLimits& limits, double t) {
  for (int pieces = 1;; ++pieces) {
    const Result<bool> is_done = store.Prune(limits, t, std::chrono::milliseconds(0));
    INFO(is_done.status().message());
    REQUIRE(is_done.ok());
    if (is_done.value()) return pieces;
  }
}

void RunSql(const std::string& path, const char* sql) {
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  REQUIRE(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(handle);
}

std::vector<int64_t> NumbersOf(const std::vector<StoredLine>& lines) {
  std::vector<int64_t> numbers;
  for (const StoredLine& line : lines) numbers.push_back(line.number);
  return numbers;
}

TEST_CASE("what was written is there after the store is opened again") {
  TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  {
    auto store = OpenAt(path);
    Batch batch;
    batch.Add(LineOf(1, "a", 10, true));
    batch.Add(LineOf(2, "b", 10.5));
    batch.Add(LineOf(3, "a", 11));
    batch.runs["old"] = {"old", true, 5, R"({"id":"old"})"};
    batch.changes.push_back(ChangeOf(4, "i1", IncidentState::kOpened));
    batch.silences.push_back({"s1", "a*", "stuck", "kim", "moving", 1, 1000});
    Write(*store, batch);
  }
  auto store = OpenAt(path);
  const Restored restored = Load(*store);
  CHECK(NumbersOf(restored.lines) == std::vector<int64_t>{1, 2, 3});
  CHECK(restored.lines[0].begins);
  CHECK(restored.lines[2].json == LineOf(3, "a", 11).json);
  CHECK(restored.number_last == 4);
  REQUIRE(restored.runs.size() == 1);
  CHECK(restored.runs[0].summary == R"({"id":"old"})");
  REQUIRE(restored.incidents.size() == 1);
  CHECK(restored.incidents[0].incident.id == "i1");
  CHECK(restored.incidents[0].incident.ranks == std::vector<int64_t>{3, 1});
  REQUIRE(restored.silences.size() == 1);
  CHECK(restored.silences[0].until_t == 1000);
}

TEST_CASE("an incident comes back with all of its evidence") {
  StoredChange change = ChangeOf(7, "i1", IncidentState::kUpdated);
  change.incident.evidence.Set("witness", "state T");
  change.incident.evidence.Set("loss", std::nan(""));
  change.incident.evidence.Set("steps", int64_t{12});
  change.incident.evidence.Set("stalled", true);
  change.incident.evidence.Set("norms", std::vector<double>{1.5, HUGE_VAL});
  change.incident.evidence.Set("hosts", std::vector<std::string>{"h1", "h2"});
  change.acknowledgement = Acknowledgement{"kim", "looking", 12.5};
  const Result<StoredChange> read = ParseChange(7, change.what, ChangeText(change));
  REQUIRE(read.ok());
  CHECK(ChangeText(read.value()) == ChangeText(change));
  CHECK(read.value().incident.opened_t == change.incident.opened_t);
  CHECK(std::isnan(std::get<double>(*read.value().incident.evidence.Find("loss"))));
  CHECK(read.value().acknowledgement->by == "kim");
}

TEST_CASE("a start makes the earlier lines of its run unnecessary, and no others") {
  TemporaryDirectory directory;
  auto store = OpenAt(directory / "s.db");
  Batch first;
  first.Add(LineOf(1, "a", 1, true));
  first.Add(LineOf(2, "a", 2));
  first.Add(LineOf(3, "b", 2));
  Write(*store, first);
  Batch second;
  second.Add(LineOf(4, "a", 3));
  second.Add(LineOf(5, "a", 4, true));
  second.Add(LineOf(6, "a", 5));
  Write(*store, second);
  CHECK(NumbersOf(Load(*store).lines) == std::vector<int64_t>{3, 5, 6});
}

TEST_CASE("every change of an incident and every acknowledgement is kept, and the last one is its present") {
  TemporaryDirectory directory;
  auto store = OpenAt(directory / "s.db");
  Batch batch;
  batch.changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  batch.changes.push_back(AcknowledgedChange(2, "i1", "kim"));
  batch.changes.push_back(ChangeOf(3, "i2", IncidentState::kOpened));
  batch.changes.push_back(ChangeOf(4, "i1", IncidentState::kResolved));
  Write(*store, batch);
  const auto changes = store->ChangesOf("i1");
  REQUIRE(changes.ok());
  REQUIRE(changes.value().size() == 3);
  CHECK(changes.value()[1].what == "acknowledged");
  CHECK(changes.value()[1].acknowledgement->by == "kim");
  const Restored restored = Load(*store);
  REQUIRE(restored.incidents.size() == 2);
  CHECK(restored.incidents[0].incident.id == "i2");
  CHECK(restored.incidents[1].incident.state == IncidentState::kResolved);
  CHECK(restored.changes.size() == 4);
}

TEST_CASE("lines are pruned by age, by size, and some minutes after the end of their run") {
  TemporaryDirectory directory;
  auto store = OpenAt(directory / "s.db");
  for (int i = 0; i < 10; ++i) {
    Batch batch;
    batch.Add(LineOf(i + 1, i % 2 == 0 ? "a" : "b", 100.0 * i));
    Write(*store, batch);
  }
  StoreLimits limits;
  limits.line_seconds = 650;
  (void)PruneAll(*store, limits, 1000);
  CHECK(NumbersOf(Load(*store).lines) == std::vector<int64_t>{5, 6, 7, 8, 9, 10});
  limits.line_bytes = 3 * static_cast<int64_t>(LineOf(1, "a", 0).json.size() + 4);
  (void)PruneAll(*store, limits, 1000);
  const auto kept = NumbersOf(Load(*store).lines);
  CHECK(kept.size() <= 3);
  CHECK(kept.back() == 10);
  Batch end;
  end.runs["b"] = {"b", true, 900, "{}"};
  Write(*store, end);
  (void)PruneAll(*store, limits, 1501);
  for (const StoredLine& line : Load(*store).lines) CHECK(line.run == "a");
}

TEST_CASE("a series is replaced from a step on, and thinned when it has too many points") {
  TemporaryDirectory directory;
  auto store = OpenAt(directory / "s.db");
  Batch batch;
  StoredSeries series{"a", "loss", 0, {}};
  for (int64_t step = 0; step < 100; ++step) {
    const double loss = step == 50 ? std::nan("") : 100.0 - static_cast<double>(step);
    const bool odd = std::isnan(loss);
    const double finite = odd ? 0 : loss;
    series.points.push_back(
        {step, step, 1.0 * static_cast<double>(step), finite, finite, finite, loss, 1, odd ? 1 : 0});
  }
  batch.series.push_back(series);
  Write(*store, batch);
  Batch again;
  again.series.push_back({"a", "loss", 99, {{99, 100, 100, 1, 2, 1.5, 1, 2, 0}}});
  Write(*store, again);
  auto read = store->SeriesOf("a", "loss");
  REQUIRE(read.ok());
  REQUIRE(read.value().size() == 100);
  CHECK(read.value().back().step_last == 100);
  CHECK(std::isnan(read.value()[50].last));
  StoreLimits limits;
  limits.points_of_series = 20;
  (void)PruneAll(*store, limits, 0);
  read = store->SeriesOf("a", "loss");
  REQUIRE(read.value().size() <= 10);
  CHECK(read.value().front().step_first == 0);
  CHECK(read.value().front().max == 100);
  CHECK(read.value().back().step_last == 100);
  int64_t count = 0, nonfinite = 0;
  for (const SeriesPoint& point : read.value()) count += point.count, nonfinite += point.nonfinite;
  CHECK(count == 101);
  CHECK(nonfinite == 1);
}

TEST_CASE("a store over its size forgets the runs that ended first, and keeps their incidents") {
  TemporaryDirectory directory;
  auto store = OpenAt(directory / "s.db");
  for (int i = 0; i < 20; ++i) {
    Batch batch;
    const std::string run = "r" + std::to_string(i);
    batch.runs[run] = {run, true, 1.0 * i, std::string(20000, 'x')};
    Write(*store, batch);
  }
  Batch batch;
  batch.changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  Write(*store, batch);
  StoreLimits limits;
  limits.bytes = 200000;
  (void)PruneAll(*store, limits, 100);
  const Restored restored = Load(*store);
  CHECK(restored.runs.size() < 12);
  REQUIRE(!restored.runs.empty());
  CHECK(restored.runs.front().id == "r19");
  CHECK(restored.incidents.size() == 1);
  CHECK(store->Bytes().value() < 260000);
}

TEST_CASE("runs are forgotten piece by piece, with all that there is of them, and so are old ones without an end") {
  TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  auto store = OpenAt(path);
  constexpr int kSeries = 20;
  Batch batch;
  batch.runs["ended"] = {"ended", true, 500, "{}"};
  batch.runs["silent"] = {"silent", false, 500, "{}"};
  batch.runs["trains"] = {"trains", false, 2000, "{}"};
  for (const auto& [id, run] : batch.runs)
    for (int i = 0; i < kSeries; ++i)
      batch.series.push_back({id, "s" + std::to_string(i), 0, {{0, 1, 1, 1, 1, 1, 1, 1, 0}}});
  Write(*store, batch);
  StoreLimits limits;
  limits.ended_seconds = 1000;
  CHECK(PruneAll(*store, limits, 1400) > kSeries);
  CHECK(store->SeriesNames("ended").value().size() == kSeries);
  CHECK(PruneAll(*store, limits, 2000) > 2 * kSeries);
  for (const char* run : {"ended", "silent"}) CHECK(store->SeriesNames(run).value().empty());
  CHECK(store->SeriesNames("trains").value().size() == kSeries);
  store.reset();
  CHECK(Load(*OpenAt(path)).runs.empty());
}

TEST_CASE("a store of a later version, or of another program, is refused and stays as it is") {
  TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  (void)OpenAt(path);
  RunSql(path, "PRAGMA user_version = 3");
  const auto later = Store::Open({path, ""});
  REQUIRE(!later.ok());
  CHECK(later.status().code() == StatusCode::kUnsupported);
  CHECK_THAT(later.status().message(), Catch::Contains("has version 3"));
  RunSql(directory / "other.db", "CREATE TABLE t (x)");
  const auto other = Store::Open({directory / "other.db", ""});
  REQUIRE(!other.ok());
  CHECK(other.status().code() == StatusCode::kUnsupported);
  testing::WriteInPlace(directory / "text.db", std::string(8192, 'x'));
  CHECK(Store::Open({directory / "text.db", ""}).status().code() == StatusCode::kInvalid);
}

TEST_CASE("a process that is killed at any moment leaves whole batches, the first ones, and nothing else") {
  TemporaryDirectory directory;
  for (int round = 0; round < 8; ++round) {
    const std::string path = directory / ("k" + std::to_string(round));
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Result<std::unique_ptr<Store>> store = Store::Open({path, ""});
      for (int64_t i = 1; store.ok(); ++i) {
        Batch batch;
        batch.Add(LineOf(2 * i, "a", 1));
        batch.changes.push_back(ChangeOf(2 * i + 1, "i" + std::to_string(i), IncidentState::kOpened));
        if (!store.value()->Write(batch).ok() || ::write(pipe_ends[1], &i, sizeof i) != sizeof i) break;
      }
      ::_exit(1);
    }
    ::close(pipe_ends[1]);
    int64_t last = 0, number = 0;
    while (last < 3 * round + 1 && ::read(pipe_ends[0], &number, sizeof number) == sizeof number) last = number;
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    while (::read(pipe_ends[0], &number, sizeof number) == sizeof number) last = number;
    ::close(pipe_ends[0]);
    auto store = OpenAt(path);
    const Restored restored = Load(*store);
    // The one under way at the kill may be there, too.
    CHECK(static_cast<int64_t>(restored.lines.size()) >= last);
    CHECK(static_cast<int64_t>(restored.lines.size()) <= last + 1);
    CHECK(restored.lines.size() == restored.incidents.size());
  }
}

TEST_CASE("processes are kept until they are gone, and those not seen for long are forgotten") {
  TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  const KnownProcess process{"run \xff", 3, {"h", "b", "pid:[4]", 7, 1 << 20}, {"c", "b", "pid:[5]", 1, 1 << 20},
                             1000,       0};
  KnownProcess other = process;
  other.process.pid = 8;
  {
    auto store = OpenAt(path);
    Batch batch;
    batch.processes[KeyOf(process)] = process;
    batch.processes[KeyOf(other)] = other;
    Write(*store, batch);
    Batch gone;
    gone.processes[KeyOf(other)] = std::nullopt;
    Write(*store, gone);
  }
  auto store = OpenAt(path);
  Restored restored = Load(*store);
  REQUIRE(restored.processes.size() == 1);
  CHECK(restored.processes[0].rank == 3);
  CHECK(restored.processes[0].process == process.process);
  CHECK(restored.processes[0].own == process.own);
  StoreLimits limits;
  limits.ended_seconds = 500;
  (void)PruneAll(*store, limits, 1400);
  CHECK(Load(*store).processes.size() == 1);
  (void)PruneAll(*store, limits, 1600);
  CHECK(Load(*store).processes.empty());
}

TEST_CASE("messages are kept until they are removed, and all are replaced when they start over") {
  const TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  const auto store = OpenAt(path);
  Batch batch;
  batch.deliveries = {{"a", "1"}, {"b", "2"}};
  Write(*store, batch);
  Batch later;
  later.deliveries = {{"a", std::nullopt}, {"c", "3"}};
  batch.Append(later);
  CHECK(batch.deliveries.size() == 3);
  Write(*store, later);
  CHECK(Load(*store).deliveries == std::map<std::string, std::string>{{"b", "2"}, {"c", "3"}});
  Batch over;
  over.starts_deliveries_over = true;
  over.deliveries = {{"d", "4"}};
  batch.Append(over);
  CHECK(batch.deliveries.size() == 1);
  Restored restored = Load(*store);
  restored.Append(over);
  Write(*store, over);
  CHECK(Load(*store).deliveries == std::map<std::string, std::string>{{"d", "4"}});
  CHECK(restored.deliveries == Load(*store).deliveries);
  batch.DropDeliveries(1);
  CHECK(batch.deliveries.size() == 1);
  batch.DropDeliveries(0);
  CHECK(batch.deliveries.empty());
}

TEST_CASE("a store of this version from before there were messages gets their table") {
  const TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  Batch batch;
  batch.Add(LineOf(1, "a", 1));
  Write(*OpenAt(path), batch);
  RunSql(path, "DROP TABLE deliveries");
  const auto store = OpenAt(path);
  CHECK(Load(*store).lines.size() == 1);
  CHECK(Load(*store).deliveries.empty());
}

TEST_CASE("a store of an earlier version is taken over with all that it holds") {
  TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  {
    auto store = OpenAt(path);
    Batch batch;
    batch.Add(LineOf(1, "a", 10, true));
    Write(*store, batch);
  }
  RunSql(path, "DROP TABLE processes; PRAGMA user_version = 1");
  auto store = OpenAt(path);
  Batch batch;
  batch.processes["p"] = KnownProcess();
  Write(*store, batch);
  CHECK(NumbersOf(Load(*store).lines) == std::vector<int64_t>{1});
  CHECK(Load(*store).processes.size() == 1);
}

TEST_CASE("of batches that wait, the last word on each process is written") {
  Batch first, later;
  first.processes["p"] = KnownProcess{"r", 0, {}};
  later.processes["p"] = std::nullopt;
  CHECK_FALSE(later.empty());
  first.Append(std::move(later));
  REQUIRE(first.processes.contains("p"));
  CHECK_FALSE(first.processes["p"]);
}

}  // namespace
}  // namespace stepwatch::operations
