// The states of a job's ranks as of their last answers. Pure.
#pragma once

#include <chrono>
#include <numeric>

#include "controller/status/job_status.h"

namespace stepwatch::api {

class RankStates {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rank's answer counts as its state for this time.
  static constexpr std::chrono::minutes kHoldFor{5};

  // Records the answers of all ranks. `unix_seconds`: their time, system clock.
  void Update(const status::StateCounts& reported, Time now, double unix_seconds) {
    reported_ = reported;
    asked_ = now;
    asked_unix_ = unix_seconds;
  }
  // Adds this rank's own state; `others` is the number of other ranks.
  status::RankStates Now(RunState own, int others, Time now) const {
    status::RankStates states;
    ++states.ranks[static_cast<size_t>(own)];
    states.unknown = others;
    states.asked_unix = asked_unix_;
    if (asked_unix_ == 0 || now - asked_ > kHoldFor) return states;
    states.unknown -= std::accumulate(reported_.begin(), reported_.end(), 0);
    for (size_t i = 0; i < states.ranks.size(); ++i) states.ranks[i] += reported_[i];
    return states;
  }

 private:
  status::StateCounts reported_{};  // without this rank
  Time asked_;
  double asked_unix_ = 0;  // 0: never
};

}  // namespace stepwatch::api
