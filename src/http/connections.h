// The connections that are open, and the choice of those that go when there is no room for another. On the thread of
// the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/http/session.h"

namespace stepwatch::http {

class Connections {
 public:
  // Each sort has rooms of its own: strangers, and readers, keep the owner out as little as the network.
  enum class Sort : uint8_t { kOwner, kOtherUser, kNetwork };
  // Strangers have not shown who they are, or may not ask, and have been rejected for it. Others are rejected because
  // the server is busy.
  enum class Room : uint8_t { kServed, kStrangers, kBusy };

  void Add(const std::shared_ptr<Session>& session, Sort sort, bool is_rejected_as_busy);
  void Remove(Session* session) { connections_.erase(session); }
  size_t size() const { return connections_.size(); }
  size_t Count(Sort sort, Room room) const;

  // The oldest stranger goes. `silent_first`: one that has not begun to send a request, if there is one.
  void EndOldestStranger(Sort sort, bool silent_first);
  // The oldest goes of those that are served and wait for nothing: it can come again. False: there is none.
  bool EndOldestSilent(Sort sort);
  // A stranger goes, or a connection that waits for nothing, and can come again. False: there is none.
  bool EndAny();
  // Those that are open now, all or of one sort: a call may end them.
  std::vector<std::shared_ptr<Session>> All(std::optional<Sort> sort = std::nullopt) const;

 private:
  struct Connection {
    std::shared_ptr<Session> session;
    uint64_t number = 0;  // the order in which they came
    Sort sort = Sort::kOwner;
    bool is_rejected_as_busy = false;
    Room room() const {
      return is_rejected_as_busy ? Room::kBusy : session->is_known() ? Room::kServed : Room::kStrangers;
    }
  };

  bool EndOldest(const std::function<bool(const Connection&)>& is_eligible, bool silent_first = true);

  std::map<Session*, Connection> connections_;
  uint64_t connections_in_all_ = 0;
};

}  // namespace stepwatch::http
