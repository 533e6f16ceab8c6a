#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "stepwatch/stores.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class Call>
Store::Answer Wait(Call call) {
  auto promise = std::make_shared<std::promise<Store::Answer>>();
  std::future<Store::Answer> answer = promise->get_future();
  call([promise](Store::Answer value) { promise->set_value(std::move(value)); });
  REQUIRE(answer.wait_for(seconds(10)) == std::future_status::ready);
  return answer.get();
}

void CheckStore(Store& store) {
  const auto get = [&](const std::string& key) { return Wait([&](auto done) { store.Get(key, done); }); };
  CHECK_FALSE(get("a/b").value());
  CHECK(Wait([&](auto done) { store.Set("a/b", "one", done); }).ok());
  CHECK(get("a/b").value() == "one");
  CHECK(Wait([&](auto done) { store.Set("a/b", "two\nlines", done); }).ok());
  CHECK(get("a/b").value() == "two\nlines");
  CHECK(Wait([&](auto done) { store.SetOnce("once", "first", done); }).value() == "first");
  CHECK(Wait([&](auto done) { store.SetOnce("once", "second", done); }).value() == "first");
  CHECK(get("once").value() == "first");
}

TEST_CASE("the memory store keeps what was set, and a key set once") {
  CheckStore(*MakeMemoryStore());
}

TEST_CASE("the file store does the same on a thread of its own") {
  testing::TemporaryDirectory directory;
  CheckStore(*RunOnOwnThread(MakeFileStore(directory / "store")));
}

TEST_CASE("what is no file in a store's directory fails a question, and holds nobody") {
  testing::TemporaryDirectory directory;
  REQUIRE(::mkfifo((directory / "a+b").c_str(), 0600) == 0);
  REQUIRE(::symlink("/dev/zero", (directory / "c").c_str()) == 0);
  const auto store = MakeFileStore(directory.path());
  CHECK_FALSE(store->Get("a/b").ok());
  CHECK_FALSE(store->Get("c").ok());
  CHECK_FALSE(store->SetOnce("a/b", "mine").ok());
}

TEST_CASE("of many that set a key once in a directory, one wins and all learn which") {
  testing::TemporaryDirectory directory;
  for (int round = 0; round < 30; ++round) {
    const std::string key = "round/" + std::to_string(round);
    std::vector<std::string> standing(6);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < standing.size(); ++i)
      threads.emplace_back([&, i] {
        const auto answer = MakeFileStore(directory / "store")->SetOnce(key, "rank " + std::to_string(i));
        standing[i] = answer.ok() ? answer.value().value_or("none") : answer.status().message();
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& each : standing) CHECK(each == standing[0]);
    CHECK(standing[0].rfind("rank ", 0) == 0);
  }
}

TEST_CASE("a queue hands requests to whoever performs them, and answers what is left when it is closed") {
  StoreQueue queue;
  CHECK_FALSE(queue.Next(milliseconds(0)));
  std::vector<bool> ok;
  const auto note = [&](const Store::Answer& answer) { ok.push_back(answer.ok()); };
  queue.Set("a", "1", note);
  queue.SetOnce("b", "2", note);
  auto request = queue.Next(seconds(10));
  REQUIRE(request);
  CHECK(request->call == StoreQueue::Call::kSet);
  CHECK(request->key == "a");
  CHECK(request->value == "1");
  request->done(std::optional<std::string>());
  CHECK(ok == std::vector<bool>{true});
  queue.Close();
  CHECK(ok == std::vector<bool>{true, false});
  queue.Get("c", note);
  CHECK(ok == std::vector<bool>{true, false, false});
  CHECK_FALSE(queue.Next(seconds(10)));
}

TEST_CASE("a store that throws or hangs on its thread harms nobody") {
  class Bad final : public BlockingStore {
   public:
    explicit Bad(std::shared_future<void> gate) : gate_(std::move(gate)) {}
    Status Set(const std::string&, const std::string&) override { throw std::runtime_error("connection reset"); }
    Store::Answer Get(const std::string&) override {
      gate_.wait();
      return std::optional<std::string>("late");
    }
    Store::Answer SetOnce(const std::string&, const std::string&) override {
      return Status(StatusCode::kUnavailable, "no");
    }

   private:
    std::shared_future<void> gate_;
  };
  std::promise<void> gate;
  auto store = RunOnOwnThread(std::make_shared<Bad>(gate.get_future().share()));
  const Store::Answer thrown = Wait([&](auto done) { store->Set("a", "b", done); });
  CHECK(thrown.status().message() == "connection reset");
  auto answered = std::make_shared<std::promise<void>>();
  store->Get("a", [answered](const auto&) { answered->set_value(); });
  store.reset();  // does not wait for the call that hangs
  gate.set_value();
  CHECK(answered->get_future().wait_for(seconds(10)) == std::future_status::ready);
}

}  // namespace
}  // namespace stepwatch
