// Open connections, and the choice of the connection to close when a new one needs its place. Loop thread only.
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
  // Each sort has its own limits, so neither other users nor the network can keep the owner out.
  enum class Sort : uint8_t { kOwner, kOtherUser, kNetwork };
  // kStrangers: not authenticated yet, or rejected for lack of access. kBusy: rejected because the server is busy.
  enum class Room : uint8_t { kServed, kStrangers, kBusy };

  void Add(const std::shared_ptr<Session>& session, Sort sort, bool is_rejected_as_busy);
  void Remove(Session* session) { connections_.erase(session); }
  size_t size() const { return connections_.size(); }
  size_t Count(Sort sort, Room room) const;

  // Ends the oldest stranger; with `silent_first` rather one that has sent no byte of a request, if there is one.
  void EndOldestStranger(Sort sort, bool silent_first);
  // Ends the oldest served connection that is between two requests: its client can reconnect. False: there is none.
  bool EndOldestSilent(Sort sort);
  // Ends a stranger, or else a served connection between two requests. False: there is none.
  bool EndAny();
  // A copy of the list, as ending a session changes it.
  std::vector<std::shared_ptr<Session>> All(std::optional<Sort> sort = std::nullopt) const;

 private:
  struct Connection {
    std::shared_ptr<Session> session;
    uint64_t number = 0;  // order of arrival
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
