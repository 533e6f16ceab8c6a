// The last events of a monitor, numbered, so that a reader who lost the connection goes on where it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "controller/control_socket/job.h"
#include "src/base/mutex.h"

namespace stepwatch::control_socket {

// Any thread. Bounded: 1,000 events, of which those that find no memory are passed over (their numbers stay free).
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
