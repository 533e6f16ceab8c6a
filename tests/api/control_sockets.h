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
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::testing {

struct ControlSockets {
  std::vector<control_socket::FoundJob> Find(size_t count = 1) const {
    std::vector<control_socket::FoundJob> found;
    REQUIRE(Eventually([&] {
      found = control_socket::FindJobs({.directories = {runtime}});
      return found.size() == count;
    }));
    return found;
  }
  http::Client client() const { return http::Client(Find().front().path); }
  Json Get(const std::string& target) const {
    const auto reply = client().Get(target);
    REQUIRE(reply.status().ToString() == "ok");
    REQUIRE(reply.value().status == 200);
    return json::Parse(reply.value().body).value();
  }
  Json Status() const { return Get("/v1/status"); }
  bool Says(const char* name, const Json& value) const {
    return Eventually([&] { return Status()[name] == value; });
  }

  TemporaryDirectory directory;
  const std::string runtime = directory / "run";
  const Variable variable{"STEPWATCH_RUNTIME_DIR", runtime};
};

}  // namespace stepwatch::testing
