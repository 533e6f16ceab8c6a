#include "src/http/connections.h"

#include <utility>

namespace stepwatch::http {

void Connections::Add(const std::shared_ptr<Session>& session, Sort sort, bool is_rejected_as_busy) {
  connections_[session.get()] = {session, ++connections_in_all_, sort, is_rejected_as_busy};
}

size_t Connections::Count(Sort sort, Room room) const {
  size_t count = 0;
  for (const auto& [key, each] : connections_) count += each.sort == sort && each.room() == room ? 1 : 0;
  return count;
}

bool Connections::EndOldest(const std::function<bool(const Connection&)>& is_eligible, bool silent_first) {
  std::shared_ptr<Session> oldest;
  std::pair<bool, uint64_t> oldest_order;
  for (const auto& [key, each] : connections_) {
    if (!is_eligible(each)) continue;
    const std::pair order(silent_first && !each.session->IsSilent(), each.number);
    if (oldest && order > oldest_order) continue;
    oldest = each.session;
    oldest_order = order;
  }
  if (oldest) oldest->End();
  return oldest != nullptr;
}

void Connections::EndOldestStranger(Sort sort, bool silent_first) {
  (void)EndOldest([sort](const Connection& each) { return each.sort == sort && each.room() == Room::kStrangers; },
                  silent_first);
}

bool Connections::EndOldestSilent(Sort sort) {
  return EndOldest([sort](const Connection& each) {
    return each.sort == sort && each.room() == Room::kServed && each.session->IsSilent();
  });
}

bool Connections::EndAny() {
  return EndOldest([](const Connection& each) { return each.room() != Room::kServed; }) ||
         EndOldest([](const Connection& each) { return each.session->IsSilent(); });
}

std::vector<std::shared_ptr<Session>> Connections::All(std::optional<Sort> sort) const {
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto& [key, each] : connections_)
    if (!sort || each.sort == *sort) sessions.push_back(each.session);
  return sessions;
}

}  // namespace stepwatch::http
