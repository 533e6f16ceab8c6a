// The control sockets of a job whose ranks are monitors of this process.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "controller/control_socket/find_jobs.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/api/job.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::testing {

// Every control socket opens in a directory of its own.
struct OpenControlSockets {
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
  // A machine that is busy may be too slow for an answer.
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
  bool AllWouldTake(size_t rank, const std::string& config) const {
    return Eventually([&] { return Ask(rank, "POST", "/v1/dry-run", config)["agreed"] == true; });
  }
  Json Ranks(size_t rank) const { return Ask(rank, "GET", "/v1/ranks"); }
  bool AllAreHeard(size_t rank) const {
    return Eventually([&] { return Ranks(rank)["complete"] == true; });
  }

  TemporaryDirectory directory;
  const std::string runtime = directory / "run";
  const Variable variable{"STEPWATCH_RUNTIME_DIR", runtime};
};

}  // namespace stepwatch::testing
