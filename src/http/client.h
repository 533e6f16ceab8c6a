// Client of the control socket for the command line and for tests: blocking, with a deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "stepwatch/status.h"

namespace stepwatch::http {

// The response of a monitor, whatever its status.
struct Reply {
  int status = 0;  // 200, 404, ...
  std::string body;
};

struct ClientRequest {
  std::string method = "GET";
  std::string target;
  std::string body;
  std::string if_match;    // empty: none
  std::string request_id;  // empty: none
};

class Client {
 public:
  static constexpr std::chrono::milliseconds kUsualTime{5000};

  // The socket must be served by this user, by root, or by the user `trusted`.
  explicit Client(std::string socket_path, std::optional<uid_t> trusted = std::nullopt)
      : path_(std::move(socket_path)), trusted_(trusted) {}

  // Sends one request on a connection of its own. kUnavailable: no server, or one that is not trusted. kTimedOut: no
  // response in time.
  Result<Reply> Ask(const ClientRequest& question, std::chrono::milliseconds time = kUsualTime) const;
  Result<Reply> Ask(const std::string& method, const std::string& target, const std::string& body = "",
                    std::chrono::milliseconds time = kUsualTime) const {
    return Ask(ClientRequest{method, target, body, "", ""}, time);
  }
  Result<Reply> Get(const std::string& target, std::chrono::milliseconds time = kUsualTime) const {
    return Ask("GET", target, "", time);
  }

  // Calls `on_event` with the data of each event newer than `after`, JSON on one line, until it returns false or the
  // server closes the connection: both are Ok. `name` is the type of the event: "applied", "gap". kInvalid: the server
  // sends something other than events. `on_quiet` is called ten times a second while no event arrives, and can end the
  // call in the same way.
  using OnEvent = std::function<bool(const std::string& name, const std::string& data)>;
  using OnQuiet = std::function<bool()>;
  Status Follow(uint64_t after, const OnEvent& on_event, const OnQuiet& on_quiet = {}) const;

 private:
  const std::string path_;
  const std::optional<uid_t> trusted_;
};

}  // namespace stepwatch::http
