// The states of a job's ranks as of their last answers. Pure.
#pragma once

#include <chrono>

#include "controller/control_socket/job.h"
#include "controller/control_socket/ranks.h"

namespace stepwatch::api {

class RankStates {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rank's answer counts as its state for this time.
  static constexpr std::chrono::minutes kHoldFor{5};

  // Records the answers of all ranks. `unix_seconds`: their time, system clock.
  void Update(const control_socket::ReportedStates& reported, Time now, double unix_seconds) {
    reported_ = reported;
    asked_ = now;
    asked_unix_ = unix_seconds;
  }
  // Adds this rank's own state; `others` is the number of other ranks.
  control_socket::RankStates Now(RunState own, int others, Time now) const {
    control_socket::RankStates states;
    ++states.ranks[static_cast<size_t>(own)];
    states.unknown = others;
    states.asked_unix = asked_unix_;
    if (asked_unix_ == 0 || now - asked_ > kHoldFor) return states;
    states.unknown -= reported_.count;
    for (size_t i = 0; i < states.ranks.size(); ++i) states.ranks[i] += reported_.ranks[i];
    return states;
  }

 private:
  control_socket::ReportedStates reported_;  // without this rank
  Time asked_;
  double asked_unix_ = 0;  // 0: never
};

}  // namespace stepwatch::api
