// The other side of the control socket, for the command line and for tests: blocks, and gives up at a deadline.
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

// What a server has answered, whatever the answer is.
struct Reply {
  int status = 0;  // 200, 404, ...
  std::string body;
};
// With the descriptors that came with its first byte.
struct DescribedReply {
  Reply reply;
  std::vector<base::UniqueFd> descriptors;
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

  // The socket must be served by this user, by root, or by the user that is named here.
  explicit Client(std::string socket_path, std::optional<uid_t> trusted = std::nullopt)
      : path_(std::move(socket_path)), trusted_(trusted) {}

  // One question on a connection of its own. kUnavailable: nobody answers there, or somebody who is not to be trusted.
  // kTimedOut: not in time.
  Result<Reply> Ask(const ClientRequest& question, std::chrono::milliseconds time = kUsualTime) const;
  Result<Reply> Ask(const std::string& method, const std::string& target, const std::string& body = "",
                    std::chrono::milliseconds time = kUsualTime) const {
    return Ask(ClientRequest{method, target, body, "", ""}, time);
  }
  Result<Reply> Get(const std::string& target, std::chrono::milliseconds time = kUsualTime) const {
    return Ask("GET", target, "", time);
  }

  // Likewise. Accepts at most `count` descriptors with the answer, and a body of `bytes_max`.
  Result<DescribedReply> AskForDescriptors(const ClientRequest& question, size_t count, uint64_t bytes_max,
                                           std::chrono::milliseconds time = kUsualTime) const;

  // Calls `on_event` with the data of each event that is newer than `after`, JSON on one line, until it returns false
  // or the other end closes the connection: both are Ok. `name` is that of the event: "applied", "gap". kInvalid: the
  // other end sends something else than events. `on_quiet` is called ten times a second while no event comes, and ends
  // it likewise.
  using OnEvent = std::function<bool(const std::string& name, const std::string& data)>;
  using OnQuiet = std::function<bool()>;
  Status Follow(uint64_t after, const OnEvent& on_event, const OnQuiet& on_quiet = {}) const;

 private:
  const std::string path_;
  const std::optional<uid_t> trusted_;
};

}  // namespace stepwatch::http
