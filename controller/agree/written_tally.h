// Which ranks have written all rows of a plan: told by each, awaited by the leader. Loop thread only.
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

  // This rank has written all rows of the plan.
  void Tell(PlanId plan_id) {
    if (untold_.empty() || untold_.back() != plan_id) untold_.push_back(plan_id);
  }
  // Calls `then` once every rank has told that of the plan, or at the deadline; replaces an earlier wish.
  void Await(PlanId plan_id, Time deadline, std::function<void()> then);
  bool awaits() const { return awaited_.has_value(); }

  // Does what is due. `session_key` begins every key.
  void Advance(StoreClient* store, const std::string& session_key, Time now, std::chrono::milliseconds poll);

 private:
  struct Awaited {
    PlanId plan_id = 0;
    Time deadline;
    std::vector<bool> has_written;  // by rank
    std::function<void()> then;
  };

  const int rank_;
  std::deque<PlanId> untold_;
  std::optional<Awaited> awaited_;
  StoreClient::Request write_;
  std::vector<StoreClient::Request> requests_;  // by rank
};

}  // namespace stepwatch::agree
