// Records which ranks have written all rows of a plan: each reports it, the leader waits for it. Loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/agree/store_client.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::agree {

class WrittenTally {
 public:
  WrittenTally(int rank, int world_size) : rank_(rank), requests_(static_cast<size_t>(world_size)) {}

  // Reports that this rank has written all rows of the plan.
  void Report(PlanId plan_id) {
    if (unreported_.empty() || unreported_.back() != plan_id) unreported_.push_back(plan_id);
  }
  // Calls `then` when every rank has reported this for the plan, or at the deadline; replaces an earlier call.
  void Await(PlanId plan_id, Time deadline, std::function<void()> then);
  bool awaits() const { return awaited_.has_value(); }

  // Performs the work that is due. `session_key` is the prefix of every key.
  void Advance(StoreClient* store, const std::string& session_key, Time now, std::chrono::milliseconds poll);

 private:
  struct Awaited {
    PlanId plan_id = 0;
    Time deadline;
    std::vector<bool> has_written;  // by rank
    std::function<void()> then;
  };

  const int rank_;
  std::deque<PlanId> unreported_;
  std::optional<Awaited> awaited_;
  StoreClient::Request write_;
  std::vector<StoreClient::Request> requests_;  // by rank
};

}  // namespace stepwatch::agree
