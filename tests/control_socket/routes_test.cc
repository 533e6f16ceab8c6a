#include "controller/control_socket/routes.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::control_socket {
namespace {

TEST_CASE("a path has its route, whatever is asked behind it") {
  CHECK(FindRoute("GET", "/v1/status").route->path == std::string("/v1/status"));
  CHECK(FindRoute("GET", "/v1/status?a=b").route != nullptr);
  CHECK(FindRoute("GET", "/v1/latest/actv").parameter == "actv");
  for (const char* path : {"", "/", "/v1", "/v1/", "/v1/status/", "/v1/latest", "/v1/latest/", "/v1/latest/a/b", "*"}) {
    CHECK(FindRoute("GET", path).route == nullptr);
    CHECK(FindRoute("GET", path).allow.empty());
  }
  CHECK(FindRoute("POST", "/v1/status").route == nullptr);
  CHECK(FindRoute("POST", "/v1/status").allow == "GET");
  CHECK(FindRoute("get", "/v1/status").allow == "GET");
}

TEST_CASE("every route is described, and nothing else is") {
  const auto description = nlohmann::json::parse(testing::Contents(STEPWATCH_SOURCE_DIR "/schemas/control_api.json"));
  std::set<std::string> described, there;
  for (const auto& [path, methods] : description.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
      described.insert(upper + " " + path);
      CHECK_FALSE(operation.at("summary").get<std::string>().empty());
    }
  }
  for (const Route& route : Routes()) there.insert(std::string(route.method) + " " + route.path);
  CHECK(described == there);
}

}  // namespace
}  // namespace stepwatch::control_socket
