#include "operations/store/store_queue.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

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
    auto store = Store::Open({path, FullDisk::kName});
    REQUIRE(store.ok());
    queue.emplace(
        loop, std::move(store).value(), StoreLimits(),
        StoreQueue::Callbacks{[this](const std::string& why) { troubles.push_back(why); }, [this] { ++recoveries; }});
  }
  ~Queue() { testing::is_full = false; }

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
  std::vector<std::string> troubles;
  int recoveries = 0;
  std::optional<StoreQueue> queue;
};

TEST_CASE("What was flushed is in the store when the caller is told so") {
  Queue queue;
  queue.queue->next().Add(LineOf(1, "a", 1));
  queue.Flush();
  CHECK(queue.Reload().lines.size() == 1);
  CHECK(queue.queue->counts().bytes > 0);
}

TEST_CASE("While the disk is full everything waits, is told once, and is written in order when there is room") {
  Queue queue;
  testing::is_full = true;
  for (int64_t i = 1; i <= 5; ++i) {
    queue.queue->next().Add(LineOf(2 * i, "a", 1));
    queue.queue->next().changes.push_back(ChangeOf(2 * i + 1, "i" + std::to_string(i), IncidentState::kOpened));
    queue.Flush();
  }
  CHECK(queue.troubles.size() == 1);
  CHECK(queue.queue->counts().in_trouble);
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

TEST_CASE("A disk that stays full costs bounded memory: the oldest lines go, the last word on each incident stays") {
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

TEST_CASE("What waits is written when the queue goes") {
  Queue queue;
  queue.queue->next().Add(LineOf(1, "a", 1));
  queue.queue.reset();
  CHECK(queue.Reload().lines.size() == 1);
}

TEST_CASE("An answer of the store comes back on the loop") {
  Queue queue;
  queue.queue->next().changes.push_back(ChangeOf(1, "i1", IncidentState::kOpened));
  size_t found = 0;
  queue.queue->Flush();
  REQUIRE(queue.queue->Ask([&found](Store& store) {
    const size_t count = store.ChangesOf("i1").value().size();
    return [&found, count] { found = count; };
  }));
  while (found == 0) queue.loop.run_one();
  CHECK(found == 1);
}

}  // namespace
}  // namespace stepwatch::operations
