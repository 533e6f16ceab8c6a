#include "controller/control_socket/routes.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::control_socket {
namespace {

TEST_CASE("every route is found by its method and its path, which is read byte for byte") {
  for (const Route& route : Routes()) CHECK(FindRoute(route.method, route.path).route == &route);
  CHECK(FindRoute("GET", "/v1/status/").route == nullptr);
  CHECK(FindRoute("GET", "/v1/st%61tus").route == nullptr);
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
