#include "controller/control_socket/event_ring.h"

#include <algorithm>
#include <new>

namespace stepwatch::control_socket {

void EventRing::Add(const Event& event, const std::optional<output::EditPeer>& peer) noexcept {
  const base::MutexLock lock(&mutex_);
  ++newest_;
  try {
    if (events_.size() == kEventsMax) events_.pop_front();
    events_.push_back({newest_, event, peer});
  } catch (const std::bad_alloc&) {
  }
}

EventPage EventRing::After(uint64_t id, size_t count) const {
  EventPage page;
  const base::MutexLock lock(&mutex_);
  page.newest = newest_;
  auto next = std::upper_bound(events_.begin(), events_.end(), id,
                               [](uint64_t wanted, const NumberedEvent& each) { return wanted < each.id; });
  for (; next != events_.end() && page.events.size() < count; ++next) page.events.push_back(*next);
  return page;
}

}  // namespace stepwatch::control_socket
