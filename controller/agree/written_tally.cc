#include "controller/agree/written_tally.h"

#include <algorithm>
#include <utility>

namespace stepwatch::agree {
namespace {

std::string KeyOf(const std::string& session_key, PlanId plan_id) {
  return session_key + "/w/" + std::to_string(plan_id);
}

}  // namespace

void WrittenTally::Await(PlanId plan_id, Time deadline, std::function<void()> then) {
  awaited_ = Awaited{plan_id, deadline, std::vector<bool>(requests_.size(), false), std::move(then)};
  awaited_->has_written.at(static_cast<size_t>(rank_)) = true;
  for (StoreClient::Request& request : requests_) request.not_before = Time();
}

void WrittenTally::Advance(StoreClient* store, const std::string& session_key, Time now,
                           std::chrono::milliseconds poll) {
  if (!unreported_.empty() && !session_key.empty())
    store->Enter(&write_, KeyOf(session_key, unreported_.front()), rank_, "written", [this](const auto&) {
      if (!unreported_.empty()) unreported_.pop_front();
    });
  if (!awaited_) return;
  const std::vector<bool>& written = awaited_->has_written;
  if (now >= awaited_->deadline || std::find(written.begin(), written.end(), false) == written.end()) {
    const std::function<void()> then = std::exchange(awaited_, std::nullopt)->then;
    return then();
  }
  store->ReadWords(
      &requests_, KeyOf(session_key, awaited_->plan_id), written,
      [this, plan_id = awaited_->plan_id](int rank, const std::optional<std::string>& word) {
        if (word && awaited_ && awaited_->plan_id == plan_id) awaited_->has_written[static_cast<size_t>(rank)] = true;
      },
      poll);
}

}  // namespace stepwatch::agree
