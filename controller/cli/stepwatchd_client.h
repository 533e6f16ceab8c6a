// The stepwatchd of this machine, as verbs ask it: over its Unix socket, JSON in, JSON out.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/cli/exit_code.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

class StepwatchdClient {
 public:
  StepwatchdClient(std::string socket, uid_t owner) : socket_(std::move(socket)), owner_(owner) {}

  const std::string& socket() const { return socket_; }
  http::Client server() const { return http::Client(socket_, owner_); }

  // The object that it has answered with. kInvalid and kNotFound: it refuses what was asked, and says why;
  // kUnsupported: this user may not ask for that; kExhausted: there is no room for it; otherwise nobody answers there.
  Result<Json> Ask(const std::string& method, const std::string& target, const std::string& body = "") const;
  Result<Json> Get(const std::string& target) const { return Ask("GET", target); }

 private:
  std::string socket_;
  uid_t owner_;
};

// The one whose socket is named; empty: the first that answers where stepwatchd lies usually. The refusal says where
// was looked, what was found there, and how to start one.
Result<StepwatchdClient> FindStepwatchd(const std::string& named);

// The sockets that are tried, in this order.
std::vector<std::string> StepwatchdSockets(uid_t uid);

// A text as one piece of the path, or of the query, of a URL.
std::string UrlPiece(std::string_view text);

// Says why there is no answer, as an object or on standard error, and answers the exit code.
ExitCode FailOperations(const Status& status, bool as_json);

}  // namespace stepwatch::cli
