// The connections that are open, and the choice of those that go when there is no room for another. Socket thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "controller/control_socket/session.h"

namespace stepwatch::control_socket {

class Guests {
 public:
  // Each sort has rooms of its own: strangers, and readers, keep the owner out as little as the network.
  enum class Sort : uint8_t { kOwner, kOtherUser, kNetwork };
  // Strangers have not said who they are, or may not ask, and have been told so. Others are told that the control
  // socket is busy.
  enum class Room : uint8_t { kServed, kStrangers, kBusy };

  void Add(const std::shared_ptr<Session>& session, Sort sort, bool is_told_busy);
  void Remove(Session* session) { guests_.erase(session); }
  bool empty() const { return guests_.empty(); }
  size_t Count(Sort sort, Room room) const;

  // The oldest goes: of those who say nothing, or, where all have begun to say something, of them.
  void EndOldestStranger(Sort sort);
  // The oldest goes of those that are served and wait for nothing: it can come again. False: there is none.
  bool EndOldestSilent(Sort sort);
  // A stranger goes, or whoever waits for nothing, and can come again. False: there is nobody like that.
  bool EndSomebody();
  // Those that are inside now, all or of one sort: a call may end them.
  std::vector<std::shared_ptr<Session>> All(std::optional<Sort> sort = std::nullopt) const;

 private:
  struct Guest {
    std::shared_ptr<Session> session;
    uint64_t number = 0;  // the order in which they came
    Sort sort = Sort::kOwner;
    bool is_told_busy = false;
    Room room() const { return is_told_busy ? Room::kBusy : session->is_known() ? Room::kServed : Room::kStrangers; }
  };

  bool EndOldest(const std::function<bool(const Guest&)>& is_meant);

  std::map<Session*, Guest> guests_;
  uint64_t guests_in_all_ = 0;
};

}  // namespace stepwatch::control_socket
