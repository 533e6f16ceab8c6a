// The client of this machine's stepwatchd: over its Unix socket, JSON in, JSON out.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/cli/print_answer.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

class StepwatchdClient {
 public:
  StepwatchdClient(std::string socket, uid_t owner) : socket_(std::move(socket)), owner_(owner) {}

  const std::string& socket() const { return socket_; }
  http::Client server() const { return http::Client(socket_, owner_); }

  // The object of the answer. kInvalid and kNotFound: stepwatchd rejects the request, for the reason in the message;
  // kUnsupported: this user lacks the permission; kExhausted: no room for it; otherwise stepwatchd does not respond.
  Result<Json> Ask(const std::string& method, const std::string& target, const std::string& body = "") const;
  Result<Json> Get(const std::string& target) const { return Ask("GET", target); }

 private:
  std::string socket_;
  uid_t owner_;
};

// The stepwatchd at the socket `named`; empty: the first that answers at one of StepwatchdSockets. The refusal names
// the sockets that were tried, the trouble with each, and the way to start a stepwatchd.
Result<StepwatchdClient> FindStepwatchd(const std::string& named);

// The sockets to try, in this order.
std::vector<std::string> StepwatchdSockets(uid_t uid);

// Encodes the text as one part of the path, or of the query, of a URL.
std::string UrlPiece(std::string_view text);

// Prints why no answer came, as an object or on standard error. Returns the exit code.
ExitCode FailOperations(const Status& status, bool as_json);

// An id, and a description of its object.
using KnownId = std::pair<std::string, std::string>;

// The id that equals the prefix, else the only one that begins with it. kNotFound: no match; kInvalid: several, which
// the message names. `noun`: "run", for messages.
Result<std::string> ResolveId(const std::string& prefix, const std::vector<KnownId>& known, const std::string& noun);

// Searches the runs of stepwatchd, and the runs of its incidents.
Result<std::string> ResolveRun(const StepwatchdClient& client, const std::string& prefix);
Result<std::string> ResolveIncident(const StepwatchdClient& client, const std::string& prefix);

}  // namespace stepwatch::cli
