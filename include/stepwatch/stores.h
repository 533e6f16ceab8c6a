// Ready-made stores: a queue for another thread, a thread for blocking calls, the memory of this process, a directory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/store.h"

namespace stepwatch {

// A store whose requests other threads fetch, perform and answer: for front ends whose store lives in a language with
// threads of its own. One thread performs the immediate requests, in order; another may perform those that listen.
class StoreQueue final : public Store {
 public:
  enum class Call : uint8_t { kSet, kGet, kSetOnce, kSetAll, kAppend, kListen };
  struct Request {
    Call call = Call::kGet;
    std::string key;
    std::string value;              // kSet, kSetOnce, kSetAll, kAppend
    std::vector<std::string> keys;  // kSetAll
    Done done;
  };

  StoreQueue();
  explicit StoreQueue(Abilities abilities);
  ~StoreQueue() override;
  void Set(const std::string& key, const std::string& value, Done done) override;
  void Get(const std::string& key, Done done) override;
  void SetOnce(const std::string& key, const std::string& value, Done done) override;
  Abilities abilities() const override { return {appends_, listens_}; }
  void SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) override;
  void Append(const std::string& key, const std::string& text, Done done) override;
  void Listen(const std::string& key, Done done) override;

  // Performing thread: returns the next request; nullopt after the timeout or when the queue is closed.
  std::optional<Request> Next(std::chrono::milliseconds timeout);
  // The same for requests that listen.
  std::optional<Request> NextListen(std::chrono::milliseconds timeout);
  // Call it if no connection for listening can be made: waiting and later Listen requests fail with kUnavailable.
  void StopListening();
  // Answers waiting and later requests with kUnavailable.
  void Close();
  bool closed() const;

 private:
  class Requests;
  void Push(Request request);

  const bool appends_;
  std::atomic<bool> listens_;
  const std::unique_ptr<Requests> requests_;
};

// Performs the calls on a thread of its own. After the result is destroyed and the current call has returned, the
// thread ends and releases `store`.
std::shared_ptr<Store> RunOnOwnThread(std::shared_ptr<BlockingStore> store);

// Store in the memory of this process: for ranks that are threads of one program, and for tests.
std::shared_ptr<Store> MakeMemoryStore();

// One file per key in a directory that all ranks see; created if missing. Needs a local file system, or one on which
// link(2) is exclusive; for at most some ten ranks.
std::shared_ptr<BlockingStore> MakeFileStore(const std::string& directory);

}  // namespace stepwatch
