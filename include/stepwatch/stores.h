// Stores that are ready to use: a queue that another thread works through, a thread that performs blocking calls, the
// memory of this process, a directory.
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

// A store whose requests other threads take, perform and answer: for front ends whose store lives in a language with
// threads of its own. One thread takes what is answered at once, one after the other; another may take what listens.
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

  // The thread that performs: the next request; none if none came in time, or the queue is closed.
  std::optional<Request> Next(std::chrono::milliseconds timeout);
  // The same for requests that listen.
  std::optional<Request> NextListen(std::chrono::milliseconds timeout);
  // No connection can be made on which to listen: what listens from then on is answered as failed.
  void StopListening();
  // What waits, and what comes later, is answered with kUnavailable.
  void Close();
  bool closed() const;

 private:
  class Requests;
  void Push(Request request);

  const bool appends_;
  std::atomic<bool> listens_;
  const std::unique_ptr<Requests> requests_;
};

// Performs the calls on a thread of its own. The thread ends, and `store` with it, once the last call that is under way
// has returned after the result was destroyed.
std::shared_ptr<Store> RunOnOwnThread(std::shared_ptr<BlockingStore> store);

// In the memory of this process: for ranks that are threads of one program, and for tests.
std::shared_ptr<Store> MakeMemoryStore();

// One file a key in a directory that all ranks see; the directory is made. Local file systems and those on which
// link(2) is exclusive; not for jobs on more than some ten ranks.
std::shared_ptr<BlockingStore> MakeFileStore(const std::string& directory);

}  // namespace stepwatch
