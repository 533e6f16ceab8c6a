#include "operations/store/store_queue.h"

#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "src/base/file.h"
#include "tests/catch.h"
#include "tests/operations/store/full_disk.h"
#include "tests/operations/store/records.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using testing::ChangeOf;
using testing::FullDisk;
using testing::LineOf;
using testing::TemporaryDirectory;

struct Queue {
  Queue() {
    FullDisk::Register();
    testing::is_full = false;
    Open();
  }
  ~Queue() {
    testing::is_full = false;
    EndHang();
  }

  void Open() {
    StoreQueue::Callbacks callbacks;
    callbacks.on_trouble = [this](const std::string& why) { troubles.push_back(why); };
    callbacks.on_recovery = [this] { ++recoveries; };
    callbacks.on_note = [this](const std::string& note) { notes.push_back(note); };
    callbacks.on_restored = [this](Restored given) { restored = std::move(given); };
    callbacks.on_renewal = [this] { ++renewals; };
    queue.emplace(loop, StoreOptions{path, FullDisk::kName}, StoreLimits(), std::move(callbacks));
    REQUIRE(queue->AwaitOpen(std::chrono::minutes(1)).ok());
  }
  static void EndHang() {
    testing::hangs = false;
    testing::hangs.notify_all();
  }

  // Flushes, and runs the loop until that is done.
  void Flush() {
    bool done = false;
    queue->Flush([&] { done = true; });
    while (!done) loop.run_one();
  }
  Restored Reload() {
    auto store = Store::Open({path, ""});
    REQUIRE(store.ok());
    return std::move(store.value()->Load()).value();
  }

  TemporaryDirectory directory;
  const std::string path = directory / "s.db";
  boost::asio::io_context loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{loop.get_executor()};
  std::vector<std::string> troubles, notes;
  std::optional<Restored> restored;
  int recoveries = 0, renewals = 0;
  std::optional<StoreQueue> queue;
};

TEST_CASE("a kill while the disk is full is known to the next process, and forgotten once it has written") {
  Queue queue;
  CHECK(!queue.restored->lacks_some);
  testing::is_full = true;
  queue.queue->next().deliveries["a"] = "text";
  queue.Flush();
  CHECK(queue.troubles.size() == 1);
  // Its last write fails, too.
  queue.queue.reset();
  testing::is_full = false;
  queue.Open();
  CHECK(queue.restored->lacks_some);
  CHECK(queue.restored->deliveries.empty());
  queue.queue->next().deliveries["b"] = "text";
  queue.Flush();
  queue.queue.reset();
  queue.Open();
  CHECK(!queue.restored->lacks_some);
}

TEST_CASE("what was flushed is in the store when the callback comes") {
  Queue queue;
  queue.queue->next().Add(LineOf(1, "a", 1));
  queue.Flush();
  CHECK(queue.Reload().lines.size() == 1);
  CHECK(queue.queue->counts().bytes > 0);
}

TEST_CASE("while the disk is full everything waits, is reported once, and is written in order when there is room") {
  Queue queue;
  testing::is_full = true;
  for (int64_t i = 1; i <= 5; ++i) {
    queue.queue->next().Add(LineOf(2 * i, "a", 1));
    queue.queue->next().changes.push_back(ChangeOf(2 * i + 1, "i" + std::to_string(i), IncidentState::kOpened));
    queue.Flush();
  }
  CHECK(queue.troubles.size() == 1);
  CHECK(queue.queue->counts().in_trouble);
  CHECK(queue.Reload().lines.empty());
  CHECK(queue.Reload().incidents.empty());
  testing::is_full = false;
  queue.Flush();
  CHECK(queue.recoveries == 1);
  CHECK_FALSE(queue.queue->counts().in_trouble);
  const Restored restored = queue.Reload();
  REQUIRE(restored.incidents.size() == 5);
  CHECK(restored.incidents.back().incident.id == "i5");
  CHECK(restored.lines.size() == 5);
}

TEST_CASE("a disk that stays full costs bounded memory: the oldest lines go, the last word on each incident stays") {
  Batch batch;
  for (int64_t i = 1; i <= 100; ++i) batch.Add(LineOf(i, "a", 1));
  const size_t each = batch.line_bytes() / 100;
  CHECK(batch.DropLines(10 * each + each / 2) >= 89);
  CHECK(batch.lines.back().number == 100);
  CHECK(batch.line_bytes() <= 10 * each + each / 2);
  batch.changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  batch.changes.push_back(ChangeOf(2, "i2", IncidentState::kOpened));
  for (int64_t i = 3; i < 50; ++i) batch.changes.push_back(ChangeOf(i, "i1", IncidentState::kUpdated));
  (void)batch.FoldChanges(5);
  REQUIRE(batch.changes.size() == 5);
  CHECK(batch.changes.front().incident.id == "i2");
  CHECK(batch.changes.back().number == 49);
  (void)batch.FoldChanges(1);
  CHECK(batch.changes.size() == 2);
}

TEST_CASE("what waits is written when the queue goes") {
  Queue queue;
  queue.queue->next().Add(LineOf(1, "a", 1));
  queue.queue.reset();
  CHECK(queue.Reload().lines.size() == 1);
}

TEST_CASE("an answer of the store comes back on the loop") {
  Queue queue;
  queue.queue->next().changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  size_t found = 0;
  queue.queue->Flush();
  const auto ask = [&found](Store& store) -> StoreQueue::Answer {
    const size_t count = store.ChangesOf("i1").value().size();
    return [&found, count] { found = count; };
  };
  queue.queue->Ask(ask, [] { FAIL("the store has an answer"); });
  while (found == 0) queue.loop.run_one();
  CHECK(found == 1);
}

TEST_CASE("no caller waits for a disk that hangs, and unwritten data is there when it answers again") {
  Queue queue;
  testing::hangs = true;
  int flushed = 0, asked = 0;
  queue.queue->next().changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  queue.queue->Flush([&] { ++flushed; });
  queue.queue->Ask([](Store&) -> StoreQueue::Answer { return [] {}; }, [&] { ++asked; });
  for (int second = 1; second <= 4; ++second) queue.queue->Tick(second);
  CHECK(flushed == 1);
  CHECK(asked == 1);
  CHECK(queue.troubles.size() == 1);
  queue.queue->next().changes.push_back(ChangeOf(2, "i2", IncidentState::kOpened));
  queue.queue->Flush([&] { ++flushed; });
  CHECK(flushed == 2);
  queue.queue->Ask([](Store&) -> StoreQueue::Answer { return [] {}; }, [&] { ++asked; });
  CHECK(asked == 2);
  Queue::EndHang();
  while (queue.recoveries == 0) queue.loop.run_one();
  queue.Flush();
  CHECK(queue.Reload().incidents.size() == 2);
}

TEST_CASE("a store whose disk hangs when it is opened comes later, with what was to be written meanwhile") {
  Queue queue;
  queue.queue->next().changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  queue.Flush();
  queue.queue.reset();
  queue.restored.reset();
  testing::hangs = true;
  StoreQueue::Callbacks callbacks;
  callbacks.on_trouble = [](const std::string&) {};
  callbacks.on_recovery = [] {};
  callbacks.on_restored = [&](Restored given) { queue.restored = std::move(given); };
  queue.queue.emplace(queue.loop, StoreOptions{queue.path, FullDisk::kName}, StoreLimits(), std::move(callbacks));
  REQUIRE(queue.queue->AwaitOpen(std::chrono::milliseconds(1)).ok());
  CHECK_FALSE(queue.restored);
  queue.queue->next().changes.push_back(ChangeOf(7, "i2", IncidentState::kOpened));
  Queue::EndHang();
  while (!queue.restored) queue.loop.run_one();
  CHECK(queue.restored->incidents.size() == 2);
  CHECK(queue.restored->number_last == 7);
}

TEST_CASE("a store that is removed while it is open is written again, and one that is damaged is set aside by number") {
  Queue queue;
  queue.queue->next().changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  queue.Flush();
  REQUIRE(::unlink(queue.path.c_str()) == 0);
  queue.Flush();
  CHECK(queue.renewals == 1);
  CHECK(queue.Reload().incidents.size() == 1);
  for (int64_t number = 1; number <= 2; ++number) {
    testing::WriteInPlace(queue.path, "garbage " + std::to_string(number));
    queue.Flush();
    const std::string aside = queue.path + ".damaged-" + std::to_string(number + 1);
    CHECK(base::ReadFile(aside, 100).value() == "garbage " + std::to_string(number));
    CHECK(queue.Reload().incidents.size() == 1);
  }
  CHECK(queue.queue->counts().set_aside == 3);
  CHECK(queue.troubles.empty());
}

TEST_CASE("a store that is damaged again and again fills its disk no more than so many times") {
  Queue queue;
  constexpr int kKept = 32;
  for (int number = 1; number <= kKept + 3; ++number) {
    testing::WriteInPlace(queue.path, "garbage " + std::to_string(number));
    queue.Flush();
  }
  const auto aside = [&](int number) {
    const Result<std::string> text = base::ReadFile(queue.path + ".damaged-" + std::to_string(number), 100);
    return text.ok() ? text.value() : "none";
  };
  CHECK(aside(1) == "garbage 1");
  CHECK(aside(kKept - 1) == "garbage " + std::to_string(kKept - 1));
  CHECK(aside(kKept) == "garbage " + std::to_string(kKept + 3));
  CHECK(aside(kKept + 1) == "none");
}

TEST_CASE("a change that was stored and is not there any more is counted as lost, and its number is used by no other") {
  Queue queue;
  queue.queue->next().changes.push_back(ChangeOf(41, "i1", IncidentState::kOpened));
  queue.Flush();
  queue.queue.reset();
  for (const char* ending : {"", "-wal"}) (void)::unlink((queue.path + ending).c_str());
  queue.Open();
  CHECK(queue.restored->number_last == 41);
  CHECK(queue.queue->counts().changes_lost == 41);
  CHECK(queue.notes.size() == 2);
}

}  // namespace
}  // namespace stepwatch::operations
