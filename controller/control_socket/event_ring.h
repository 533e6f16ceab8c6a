// The newest events of a monitor, numbered, so that a reader that lost its connection can resume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "controller/control_socket/job.h"
#include "src/base/mutex.h"

namespace stepwatch::control_socket {

// Any thread. Keeps at most 1,000 events; an event that finds no memory is dropped and leaves its number unused.
class EventRing {
 public:
  static constexpr size_t kEventsMax = 1000;

  // `peer`: see NumberedEvent.
  void Add(const Event& event, const std::optional<output::EditPeer>& peer = std::nullopt) noexcept;
  EventPage After(uint64_t id, size_t count) const;

 private:
  mutable base::Mutex mutex_;
  std::deque<NumberedEvent> events_ STEPWATCH_GUARDED_BY(mutex_);
  uint64_t newest_ STEPWATCH_GUARDED_BY(mutex_) = 0;
};

}  // namespace stepwatch::control_socket
