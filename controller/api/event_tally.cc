#include "controller/api/event_tally.h"

#include <algorithm>

namespace stepwatch::api {
namespace {

void Add(double seconds, status::Durations* durations) {
  ++durations->count;
  durations->seconds += std::max(0.0, seconds);
}

}  // namespace

// Each upload is attributed once, as another user may save the same bytes again.
std::optional<output::EditPeer> EventTally::PeerOf(const Event& event) {
  if (event.kind == EventKind::kSeen) {
    seen_ = event.sha256;
    seen_peer_ = sent_ == event.sha256 ? std::optional(sender_) : std::nullopt;
    sent_.clear();
    return seen_peer_;
  }
  return event.kind == EventKind::kRefused && event.sha256 == seen_ ? seen_peer_ : std::nullopt;
}

std::optional<output::EditPeer> EventTally::Count(const Event& event, double unix_seconds) {
  ++counts_.events;
  switch (event.kind) {
    case EventKind::kSeen:
      seen_at_ = event.t;
      counts_.last_aborted = false;
      break;
    case EventKind::kRefused:
    case EventKind::kStopping: seen_at_.reset(); break;
    case EventKind::kAborted:
      ++counts_.aborts;
      seen_at_.reset();
      counts_.last_aborted = true;
      break;
    case EventKind::kArmed:
      if (seen_at_) Add(event.t - *seen_at_, &counts_.decisions);
      seen_at_.reset();
      break;
    case EventKind::kFinished: finished_at_.emplace(event.plan_id, event.t); break;
    case EventKind::kApplied:
      ++counts_.applied;
      counts_.last_aborted = false;
      counts_.last_applied_unix = unix_seconds;
      applied_plan_ = event.plan_id;
      applied_at_ = event.step;
      break;
    case EventKind::kDrained: OnDrained(event); break;
    case EventKind::kWroteBack: counts_.write_back = event.message; break;
    default: break;
  }
  return PeerOf(event);
}

void EventTally::OnDrained(const Event& event) {
  counts_.ledger.produced += event.ledger.produced;
  counts_.ledger.written += event.ledger.written;
  for (size_t i = 0; i < event.ledger.dropped.size(); ++i) counts_.ledger.dropped[i] += event.ledger.dropped[i];
  counts_.measuring_seconds += event.busy_seconds;
  measured_ = control_socket::MeasuredPlan{event.plan_id, event.collected, event.busy_seconds};
  const auto finished = finished_at_.find(event.plan_id);
  if (finished == finished_at_.end()) return;
  Add(event.t - finished->second, &counts_.drains);
  finished_at_.erase(finished);
}

}  // namespace stepwatch::api
