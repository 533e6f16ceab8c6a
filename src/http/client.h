// Blocking HTTP client of a control socket, for the command line and for tests. Each call has a deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "stepwatch/status.h"

namespace stepwatch::http {

// A response with any status code.
struct Reply {
  int status = 0;  // 200, 404, ...
  std::string body;
};
// A response with the descriptors that came with its first byte.
struct DescribedReply {
  Reply reply;
  std::vector<base::UniqueFd> descriptors;
};

struct ClientRequest {
  std::string method = "GET";
  std::string target;
  std::string body;
  std::string if_match;    // empty: no header
  std::string request_id;  // empty: no header
};

class Client {
 public:
  static constexpr std::chrono::milliseconds kUsualTime{5000};

  // The process that serves the socket must run as this user, as root, or as the user `trusted`.
  explicit Client(std::string socket_path, std::optional<uid_t> trusted = std::nullopt)
      : path_(std::move(socket_path)), trusted_(trusted) {}

  // Sends one request on a connection of its own. kUnavailable: no process listens there, or one that is not trusted.
  // kTimedOut: the response did not arrive in time.
  Result<Reply> Ask(const ClientRequest& question, std::chrono::milliseconds time = kUsualTime) const;
  Result<Reply> Ask(const std::string& method, const std::string& target, const std::string& body = "",
                    std::chrono::milliseconds time = kUsualTime) const {
    return Ask(ClientRequest{method, target, body, "", ""}, time);
  }
  Result<Reply> Get(const std::string& target, std::chrono::milliseconds time = kUsualTime) const {
    return Ask("GET", target, "", time);
  }

  // The same; accepts at most `count` descriptors with the response, and a body of at most `bytes_max`.
  Result<DescribedReply> RequestDescriptors(const ClientRequest& question, size_t count, uint64_t bytes_max,
                                            std::chrono::milliseconds time = kUsualTime) const;

  // Calls `on_event` for each event newer than `after`, until it returns false or the server closes the connection;
  // both are Ok. `name` is the name of the event ("applied", "gap"), `data` its JSON on one line. kInvalid: the server
  // sends something other than events. `on_quiet` is called ten times a second while no event arrives, and also ends
  // the call by returning false.
  using OnEvent = std::function<bool(const std::string& name, const std::string& data)>;
  using OnQuiet = std::function<bool()>;
  Status Follow(uint64_t after, const OnEvent& on_event, const OnQuiet& on_quiet = {}) const;

 private:
  const std::string path_;
  const std::optional<uid_t> trusted_;
};

}  // namespace stepwatch::http
