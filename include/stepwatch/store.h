// Store through which the ranks of a job agree: small texts under keys that all ranks see.
//
// Any key-value store works that can set a key, get its value, and set a key once (torch's stores: set, get,
// compare_set). Keys are ASCII and below 200 bytes; values are UTF-8, never empty, below 2 MiB. stores.h has ready-made
// stores.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch {

// Asynchronous: the monitor's loop thread calls it and must not wait for a network. An implementation accepts the
// request and returns; it calls `done` exactly once, from any thread, possibly within the call. The monitor stops
// waiting for a late answer and repeats the request, so every call may come again.
class Store {
 public:
  // The value under the key, nullopt if the key is absent; an error if that is unknown.
  using Answer = Result<std::optional<std::string>>;
  using Done = std::function<void(Answer)>;

  // Optional abilities of a store. A large job needs both: without them the requests of an idle job grow with the
  // number of its ranks times the polls of each.
  struct Abilities {
    bool appends = false;  // must be the same on all ranks
    bool listens = false;
  };

  virtual ~Store() = default;
  // Replaces the value of the key. The monitor ignores the value of the answer.
  virtual void Set(const std::string& key, const std::string& value, Done done) = 0;
  virtual void Get(const std::string& key, Done done) = 0;
  // Sets the key if it is absent, atomically for all ranks. The answer is the key's value after that: `value`, or the
  // value of the rank that was first.
  virtual void SetOnce(const std::string& key, const std::string& value, Done done) = 0;

  virtual Abilities abilities() const { return {}; }
  // Sets all keys to one value, in one request if the store supports that. Default: calls Set for each.
  virtual void SetAll(const std::vector<std::string>& keys, const std::string& value, Done done);
  // abilities().appends: appends the text to the value of the key, atomically for all ranks. Default: kUnavailable.
  virtual void Append(const std::string& key, const std::string& text, Done done);
  // abilities().listens: answers when the key is set, at once if it already is, and removes it. May take days and must
  // not delay other requests. One call at a time. Default: kUnavailable.
  virtual void Listen(const std::string& key, Done done);
};

// The same with blocking calls, for stores that have no others (RunOnOwnThread). Listen is not available.
class BlockingStore {
 public:
  virtual ~BlockingStore() = default;
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  virtual Store::Answer Get(const std::string& key) = 0;
  virtual Store::Answer SetOnce(const std::string& key, const std::string& value) = 0;

  virtual bool appends() const { return false; }
  virtual Status Append(const std::string& key, const std::string& text);
};

}  // namespace stepwatch
