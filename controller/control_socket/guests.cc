#include "controller/control_socket/guests.h"

#include <utility>

namespace stepwatch::control_socket {

void Guests::Add(const std::shared_ptr<Session>& session, Sort sort, bool is_told_busy) {
  guests_[session.get()] = {session, ++guests_in_all_, sort, is_told_busy};
}

size_t Guests::Count(Sort sort, Room room) const {
  size_t count = 0;
  for (const auto& [key, guest] : guests_) count += guest.sort == sort && guest.room() == room ? 1 : 0;
  return count;
}

bool Guests::EndOldest(const std::function<bool(const Guest&)>& is_meant) {
  std::shared_ptr<Session> oldest;
  std::pair<bool, uint64_t> oldest_order;
  for (const auto& [key, guest] : guests_) {
    if (!is_meant(guest)) continue;
    const std::pair order(!guest.session->IsSilent(), guest.number);
    if (oldest && order > oldest_order) continue;
    oldest = guest.session;
    oldest_order = order;
  }
  if (oldest) oldest->End();
  return oldest != nullptr;
}

void Guests::EndOldestStranger(Sort sort) {
  (void)EndOldest([sort](const Guest& guest) { return guest.sort == sort && guest.room() == Room::kStrangers; });
}

bool Guests::EndOldestSilent(Sort sort) {
  return EndOldest([sort](const Guest& guest) {
    return guest.sort == sort && guest.room() == Room::kServed && guest.session->IsSilent();
  });
}

bool Guests::EndSomebody() {
  return EndOldest([](const Guest& guest) { return guest.room() != Room::kServed; }) ||
         EndOldest([](const Guest& guest) { return guest.session->IsSilent(); });
}

std::vector<std::shared_ptr<Session>> Guests::All(std::optional<Sort> sort) const {
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto& [key, guest] : guests_)
    if (!sort || guest.sort == *sort) sessions.push_back(guest.session);
  return sessions;
}

}  // namespace stepwatch::control_socket
