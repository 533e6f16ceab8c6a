// The doors that a test's monitors open, in a directory of their own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "controller/door/client.h"
#include "controller/door/find_jobs.h"
#include "controller/door/json_values.h"
#include "tests/api/job.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::testing {

struct Doors {
  std::vector<door::FoundJob> Find(size_t count = 1) const {
    std::vector<door::FoundJob> found;
    REQUIRE(Eventually([&] {
      found = door::FindJobs({.directories = {runtime}});
      return found.size() == count;
    }));
    return found;
  }
  door::Client client() const { return door::Client(Find().front().path); }
  door::Json Get(const std::string& target) const {
    const auto reply = client().Get(target);
    REQUIRE(reply.status().ToString() == "ok");
    REQUIRE(reply.value().status == 200);
    return door::ParseJson(reply.value().body).value();
  }
  door::Json Status() const { return Get("/v1/status"); }
  bool Says(const char* name, const door::Json& value) const {
    return Eventually([&] { return Status()[name] == value; });
  }

  TemporaryDirectory directory;
  const std::string runtime = directory / "run";
  const Variable variable{"STEPWATCH_RUNTIME_DIR", runtime};
};

}  // namespace stepwatch::testing
