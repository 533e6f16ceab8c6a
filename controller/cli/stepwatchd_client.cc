#include "controller/cli/stepwatchd_client.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/incident_text.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::cli {
namespace {

constexpr const char* kSocketName = "stepwatchd.sock";
constexpr const char* kHowToStart = "start it with `stepwatchd run`, or name its socket with --stepwatchd";

StatusCode StatusCodeOf(int http_status) {
  switch (http_status) {
    case 400:
    case 405:
    case 413: return StatusCode::kInvalid;
    case 401:
    case 403: return StatusCode::kUnsupported;
    case 404: return StatusCode::kNotFound;
    case 409: return StatusCode::kExhausted;
    default: return StatusCode::kUnavailable;
  }
}

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalid: return "invalid";
    case StatusCode::kNotFound: return "not_found";
    case StatusCode::kUnsupported: return "forbidden";
    case StatusCode::kExhausted: return "exhausted";
    default: return "unreachable";
  }
}

ExitCode ExitOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalid:
    case StatusCode::kNotFound: return kExitInvalid;
    case StatusCode::kUnsupported:
    case StatusCode::kExhausted: return kExitDegraded;
    default: return kExitNoStepwatchd;
  }
}

// A directory that the user has named may belong to a service; others must belong to the user.
Result<uid_t> OwnerOf(const std::string& directory, bool is_named) {
  const Status is_ours = sockets::CheckRuntimeDirectory(directory, ::geteuid());
  if (is_ours.ok()) return ::geteuid();
  return is_named ? sockets::OwnerOfRuntimeDirectory(directory) : Result<uid_t>(is_ours);
}

Result<StepwatchdClient> TryAt(const std::string& socket, bool is_named) {
  struct stat about {};
  if (base::FileSystem::Real().Lstat(socket.c_str(), &about) != 0) return Status(StatusCode::kNotFound, "no such file");
  if (!S_ISSOCK(about.st_mode)) return Status(StatusCode::kUnavailable, "not a socket");
  const Result<uid_t> owner = OwnerOf(base::DirectoryOf(socket), is_named);
  if (!owner.ok()) return owner.status();
  StepwatchdClient client(socket, owner.value());
  const Result<Json> healthy = client.Get("/-/healthy");
  // The control socket of a job accepts the connection, too.
  if (!healthy.ok() && healthy.status().code() == StatusCode::kNotFound)
    return Status(StatusCode::kUnavailable, "another program responds at this socket");
  if (!healthy.ok()) return healthy.status();
  return client;
}

Status NoStepwatchd(const std::string& tried) {
  return Status(StatusCode::kUnavailable, "stepwatchd does not respond (tried " + tried + "); " + kHowToStart);
}

constexpr size_t kNamedMax = 8;  // ids in a message
constexpr const char* kAllIncidents = "/v1/incidents?state=all&limit=2000";

}  // namespace

Result<Json> StepwatchdClient::Ask(const std::string& method, const std::string& target,
                                   const std::string& body) const {
  const Result<http::Reply> reply = server().Ask(method, target, body);
  if (!reply.ok()) return Status(StatusCode::kUnavailable, reply.status().message());
  Result<Json> answer = json::Parse(reply.value().body);
  if (!answer.ok() || !answer.value().is_object())
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} returned status {} without a JSON object", socket_, reply.value().status));
  if (reply.value().status == 200) return answer;
  const std::string why = Text(Part(answer.value(), "error"), "message");
  return Status(StatusCodeOf(reply.value().status),
                why.empty() ? fmt::format("{} returned status {}", socket_, reply.value().status) : why);
}

std::vector<std::string> StepwatchdSockets(uid_t uid) {
  std::vector<std::string> sockets;
  for (const std::string& directory : sockets::RuntimeDirectories(uid))
    sockets.push_back(base::JoinPath(directory, kSocketName));
  return sockets;
}

Result<StepwatchdClient> FindStepwatchd(const std::string& named) {
  if (!named.empty()) {
    std::string here;
    (void)base::FileSystem::Real().CurrentDirectory(&here);
    const std::string path = named.starts_with('/') ? named : base::JoinPath(here, named);
    Result<StepwatchdClient> found = TryAt(path, true);
    if (found.ok()) return found;
    return NoStepwatchd(base::Printable(path, 200) + ": " + found.status().message());
  }
  std::vector<std::string> tried;
  const std::string chosen = sockets::NamedRuntimeDirectory();
  for (const std::string& path : StepwatchdSockets(::geteuid())) {
    Result<StepwatchdClient> found = TryAt(path, base::DirectoryOf(path) == chosen);
    if (found.ok()) return found;
    tried.push_back(base::Printable(path, 200));
    if (found.status().code() != StatusCode::kNotFound) tried.back() += ": " + found.status().message();
  }
  return NoStepwatchd(base::Joined(tried, ", "));
}

std::string UrlPiece(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~";
  std::string piece;
  for (const char byte : text)
    piece += kPlain.find(byte) != std::string_view::npos ? std::string(1, byte)
                                                         : fmt::format("%{:02X}", static_cast<unsigned char>(byte));
  return piece;
}

ExitCode FailOperations(const Status& status, bool as_json) {
  if (as_json)
    PrintObject({{"version", 1}, {"error", {{"code", StatusCodeName(status.code())}, {"message", status.message()}}}});
  else
    base::Print(stderr, "stepwatch: %s\n", base::Printable(status.message(), 2000).c_str());
  return ExitOf(status.code());
}

Result<std::string> ResolveId(const std::string& prefix, const std::vector<KnownId>& known, const std::string& noun) {
  std::vector<const KnownId*> matching;
  for (const KnownId& each : known) {
    if (each.first == prefix) return prefix;
    if (each.first.starts_with(prefix)) matching.push_back(&each);
  }
  if (matching.size() == 1) return matching.front()->first;
  if (matching.empty())
    return Status(StatusCode::kNotFound,
                  fmt::format("stepwatchd has no {} with the id prefix \"{}\"", noun, base::Printable(prefix)));
  std::vector<std::string> named;
  for (size_t i = 0; i < matching.size() && i < kNamedMax; ++i) {
    named.push_back(base::Printable(matching[i]->first));
    if (!matching[i]->second.empty()) named.back() += " (" + base::Printable(matching[i]->second) + ")";
  }
  std::string names = base::Joined(named, ", ");
  if (matching.size() > kNamedMax) names += fmt::format(" and {} more", matching.size() - kNamedMax);
  return Status(StatusCode::kInvalid, fmt::format("the id of {} {}s begins with \"{}\": {}", matching.size(), noun,
                                                  base::Printable(prefix), names));
}

Result<std::string> ResolveRun(const StepwatchdClient& client, const std::string& prefix) {
  const Result<Json> runs = client.Get("/v1/runs");
  if (!runs.ok()) return runs.status();
  const Result<Json> incidents = client.Get(kAllIncidents);
  if (!incidents.ok()) return incidents.status();
  std::map<std::string, std::string> known;
  for (const Json& each : List(incidents.value(), "incidents")) known[RawText(each, "run")] = "forgotten";
  for (const Json& each : List(runs.value(), "runs")) known[RawText(each, "id")] = RunStateText(each);
  known.erase("");
  return ResolveId(prefix, {known.begin(), known.end()}, "run");
}

Result<std::string> ResolveIncident(const StepwatchdClient& client, const std::string& prefix) {
  const Result<Json> incidents = client.Get(kAllIncidents);
  if (!incidents.ok()) return incidents.status();
  std::vector<KnownId> known;
  for (const Json& each : List(incidents.value(), "incidents"))
    known.emplace_back(RawText(each, "id"),
                       Text(each, "incident") + " in " + Text(each, "run") + (IsOpen(each) ? "" : ", resolved"));
  return ResolveId(prefix, known, "incident");
}

}  // namespace stepwatch::cli
