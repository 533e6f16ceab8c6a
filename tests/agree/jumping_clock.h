// A clock that jumps from one piece of work to the next, and a store whose keys listeners wait for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "controller/agree/store_client.h"

namespace stepwatch::agree {

class JumpingClock {
 public:
  Time now() const { return now_; }
  // The number of the newest piece of work.
  int64_t serial() const { return serials_; }
  void At(Time time, std::function<void()> work) { events_.push({time, ++serials_, std::move(work)}); }
  void After(Time::duration time, std::function<void()> work) { At(now_ + time, std::move(work)); }
  void Run(std::chrono::milliseconds time) {
    const Time end = now_ + time;
    while (!events_.empty() && events_.top().time <= end) {
      const Event event = events_.top();
      events_.pop();
      now_ = std::max(now_, event.time);
      event.work();
    }
    now_ = end;
  }

 private:
  struct Event {
    Time time;
    int64_t serial;
    std::function<void()> work;
    bool operator<(const Event& other) const { return std::pair(time, serial) > std::pair(other.time, other.serial); }
  };

  Time now_{std::chrono::hours(1)};
  std::priority_queue<Event> events_;
  int64_t serials_ = 0;
};

// The keys of a store that listens: a value that somebody waits for is handed over and not kept.
class ListenedValues {
 public:
  explicit ListenedValues(JumpingClock* clock) : clock_(clock) {}

  void Put(const std::string& key, const std::string& value) {
    const auto listener = listeners_.find(key);
    if (listener == listeners_.end()) {
      values[key] = value;
      return;
    }
    Hear(std::move(listener->second));
    listeners_.erase(listener);
  }
  void Listen(const std::string& key, Store::Done done) {
    if (values.erase(key) != 0)
      Hear(std::move(done));
    else
      listeners_[key] = std::move(done);
  }
  std::optional<std::string> Find(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional<std::string>(found->second);
  }

  std::map<std::string, std::string> values;

 private:
  void Hear(Store::Done done) {
    clock_->After(std::chrono::milliseconds(1), [done = std::move(done)] { done(std::optional<std::string>()); });
  }

  JumpingClock* const clock_;
  std::map<std::string, Store::Done> listeners_;
};

}  // namespace stepwatch::agree
