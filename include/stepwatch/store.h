// The store through which the ranks of a job agree: small texts under keys that all ranks see.
//
// Any key-value store that a job has will do, as long as it can set a key, get what stands there, and set a key once
// (torch's stores: set, get, compare_set). Keys are ASCII and below 200 bytes; values are UTF-8, never empty, below
// 2 MiB. stores.h has stores that are ready to use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch {

// Asynchronous: the monitor's loop thread calls it and must not wait for a network. An implementation takes the request
// and returns; it calls `done` exactly once, from any thread, also from within the call. The monitor stops waiting for
// an answer that does not come and asks again, so every call may be repeated.
class Store {
 public:
  // The value that stands under the key, none if there is none; or why that is not known.
  using Answer = Result<std::optional<std::string>>;
  using Done = std::function<void(Answer)>;

  // What a store can do beyond what it must. A large job needs both: without them the requests of an idle job grow with
  // the number of its ranks times the polls of each.
  struct Abilities {
    bool appends = false;  // the same on all ranks
    bool listens = false;
  };

  virtual ~Store() = default;
  // Replaces what stood there. The monitor ignores the value of the answer.
  virtual void Set(const std::string& key, const std::string& value, Done done) = 0;
  virtual void Get(const std::string& key, Done done) = 0;
  // Sets the key if it is absent, in one step for all ranks. Answers what stands there then: `value`, or what somebody
  // else was the first to set.
  virtual void SetOnce(const std::string& key, const std::string& value, Done done) = 0;

  virtual Abilities abilities() const { return {}; }
  // Sets all keys to one value, in one request where the store has one for that.
  virtual void SetAll(const std::vector<std::string>& keys, const std::string& value, Done done);
  // abilities().appends: adds the text to what stands under the key, in one step for all ranks.
  virtual void Append(const std::string& key, const std::string& text, Done done);
  // abilities().listens: answers when the key has been set, at once if it is there, and removes it. It may take days
  // and holds up no other request. One call at a time.
  virtual void Listen(const std::string& key, Done done);
};

// The same as calls that return when they are done, for stores that are used that way. They do not listen.
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
