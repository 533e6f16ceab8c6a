// The control sockets that a test's monitors open, in a directory of their own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/api/job.h"
#include "tests/catch.h"
#include "tests/control_socket/json_reply.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::testing {

class ControlSockets {
 public:
  std::vector<control_socket::FoundJob> Find(size_t count = 1) const {
    std::vector<control_socket::FoundJob> found;
    REQUIRE(Eventually([&] {
      found = control_socket::FindJobs({.directories = {runtime}});
      return found.size() == count;
    }));
    return found;
  }

  // --- of a single monitor ---
  http::Client client() const {
    if (path_.empty()) path_ = Find().front().path;
    return http::Client(path_);
  }
  Json Get(const std::string& target) const {
    const JsonReply reply = Send(client(), {"GET", target, "", "", ""});
    REQUIRE(reply.status == 200);
    return reply.json;
  }
  JsonReply Post(const std::string& target, const std::string& body = "", const std::string& if_match = "") const {
    return Send(client(), {"POST", target, body, if_match, ""});
  }
  Json Status() const { return Get("/v1/status"); }
  bool HasStatus(const char* name, const Json& value) const {
    return Eventually([&] { return Status()[name] == value; });
  }
  std::string Metrics() const { return client().Get("/metrics").value().body; }
  bool HasMetric(const std::string& line) const {
    return Eventually([&] { return Has(Metrics(), "\nstepwatch_" + line + "\n"); });
  }

  // --- of the ranks of a job ---
  http::Client client(size_t rank) const {
    std::string path;
    REQUIRE(Eventually([&] {
      for (const control_socket::FoundJob& found : control_socket::FindJobs({.directories = {runtime}})) {
        const auto status = json::Parse(found.status);
        if (status.ok() && status.value()["rank"] == rank) path = found.path;
      }
      return !path.empty();
    }));
    return http::Client(path);
  }
  // Repeats the request until the rank has performed it.
  Json Ask(size_t rank, const std::string& method, const std::string& target, const std::string& body = "") const {
    const http::Client server = client(rank);
    std::string answer;
    REQUIRE(Eventually([&] {
      const auto reply = server.Ask(method, target, body, std::chrono::seconds(20));
      if (reply.ok()) answer = reply.value().body;
      return reply.ok() && reply.value().status == 200;
    }));
    return json::Parse(answer).value();
  }
  Json Ranks(size_t rank) const { return Ask(rank, "GET", "/v1/ranks"); }
  bool AllAnswer(size_t rank) const {
    return Eventually([&] { return Ranks(rank)["complete"] == true; });
  }
  bool AllAccept(size_t rank, const std::string& config) const {
    return Eventually([&] { return Ask(rank, "POST", "/v1/dry-run", config)["agreed"] == true; });
  }

  const TemporaryDirectory directory;
  const std::string runtime = directory / "run";

 private:
  const Variable variable_{"STEPWATCH_RUNTIME_DIR", runtime};
  mutable std::string path_;  // of the single monitor
};

}  // namespace stepwatch::testing
