// Counts a monitor's events, and attributes edits to the clients that uploaded them. Pure; not synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "controller/control_socket/plan_preview.h"
#include "controller/status/job_status.h"
#include "src/output/history.h"
#include "stepwatch/event.h"

namespace stepwatch::api {

class EventTally {
 public:
  // An upload through the control socket that the monitor has not read yet: the next edit with this hash is from this
  // peer.
  void Expect(const std::string& sha256, const output::EditPeer& peer) {
    sent_ = sha256;
    sender_ = peer;
  }
  // Returns the client whose upload caused the event; nullopt: the event has another cause. `unix_seconds`: now, system
  // clock.
  std::optional<output::EditPeer> Count(const Event& event, double unix_seconds);

  const status::EventCounts& counts() const { return counts_; }
  // The newest drained plan.
  const std::optional<control_socket::MeasuredPlan>& measured() const { return measured_; }
  // The first step of this plan; nullopt: it is not the newest that was applied.
  std::optional<int64_t> FirstStepOf(PlanId plan_id) const {
    return plan_id == applied_plan_ ? std::optional(applied_at_) : std::nullopt;
  }

 private:
  std::optional<output::EditPeer> PeerOf(const Event& event);
  void OnDrained(const Event& event);

  status::EventCounts counts_;
  std::optional<control_socket::MeasuredPlan> measured_;
  PlanId applied_plan_ = 0;
  int64_t applied_at_ = -1;
  std::optional<double> seen_at_;         // time of an edit that is still being processed
  std::map<PlanId, double> finished_at_;  // plans that are not drained yet
  std::string sent_;                      // hash of the expected upload
  output::EditPeer sender_;
  std::string seen_;  // hash of the newest edit
  std::optional<output::EditPeer> seen_peer_;
};

}  // namespace stepwatch::api
