// The store through which the ranks of a job agree: small texts under keys that all ranks see.
//
// Whatever key-value store the job has will do: it must be able to set, to get what is there, and to set a key once
// (torch's TCPStore, FileStore and HashStore: set; check, then get; compare_set with "" expected). No call waits for
// another rank. Keys are ASCII and below 200 bytes; values are UTF-8, never empty, below 2 MiB.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "stepwatch/status.h"

namespace stepwatch {

// Asynchronous: the monitor's loop thread calls, and must not be made to wait for a network. An implementation takes
// the request and returns; it calls `done` exactly once, from any thread, also from within the call. An answer that
// never comes is given up after a while and asked for again, so every call may be repeated.
class Store {
 public:
  // The value that stands under the key, none if there is none; or why that is not known.
  using Answer = Result<std::optional<std::string>>;
  using Done = std::function<void(Answer)>;

  virtual ~Store() = default;
  // Replaces what stood there. The answer's value is not looked at.
  virtual void Set(const std::string& key, const std::string& value, Done done) = 0;
  virtual void Get(const std::string& key, Done done) = 0;
  // Sets the key if it is absent, in one step for all ranks. Answers what stands there then: `value`, or what somebody
  // else was the first to set.
  virtual void SetOnce(const std::string& key, const std::string& value, Done done) = 0;
};

// The same as calls that return when they are done, for stores that are used that way.
class BlockingStore {
 public:
  virtual ~BlockingStore() = default;
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  virtual Store::Answer Get(const std::string& key) = 0;
  virtual Store::Answer SetOnce(const std::string& key, const std::string& value) = 0;
};

// A store whose requests another thread takes, performs and answers, one after the other: for front ends whose store
// lives in a language with a thread of its own.
class StoreQueue final : public Store {
 public:
  enum class Call : uint8_t { kSet, kGet, kSetOnce };
  struct Request {
    Call call = Call::kGet;
    std::string key;
    std::string value;  // kSet, kSetOnce
    Done done;
  };

  ~StoreQueue() override { Close(); }
  void Set(const std::string& key, const std::string& value, Done done) override;
  void Get(const std::string& key, Done done) override;
  void SetOnce(const std::string& key, const std::string& value, Done done) override;

  // The thread that performs: the next request; none if none came in time, or the queue is closed.
  std::optional<Request> Next(std::chrono::milliseconds timeout);
  // What waits, and what comes later, is answered with kUnavailable.
  void Close();
  bool closed() const;

 private:
  void Push(Request request);

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> requests_;  // guarded by mutex_
  bool closed_ = false;           // guarded by mutex_
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
