// Targets of requests, and the table of a server's routes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::http {

// How a server compares paths.
enum class PathRule : uint8_t {
  kVerbatim,  // byte for byte
  kLenient,   // %xx is decoded, and empty parts are skipped: "//v1/runs/" is "/v1/runs"
};

struct Target {
  std::vector<std::string> parts;  // of the path: "v1", "runs", …
  std::string query;               // after the '?', as sent
};
Target ParseTarget(std::string_view target_untrusted, PathRule rule);

// The parameters of a query by name, with %xx decoded. If a name occurs twice, the last value wins.
std::map<std::string, std::string> ParseQuery(std::string_view query_untrusted);
// NUMBER of the query "NAME=NUMBER"; `otherwise` for an empty query; nullopt for any other query.
std::optional<uint64_t> NumberInQuery(std::string_view query_untrusted, std::string_view name, uint64_t otherwise);

// Returns whether the path has the form, such as "/v1/runs/{id}", in which a part {…} matches any text but the empty
// one. `parameters` receives the texts in the places of {…}.
bool MatchPath(std::string_view form, const Target& target, std::vector<std::string>* parameters);

template <class Route>
struct Match {
  const Route* route = nullptr;
  std::vector<std::string> parameters;
  std::string query;
  std::string allow;  // without a route: the methods that the path allows; empty: no such path
};

// `Route` has the members `method` and `path`, a form.
template <class Route>
Match<Route> FindRoute(const std::vector<Route>& routes, std::string_view method, const Target& target) {
  Match<Route> match;
  match.query = target.query;
  for (const Route& route : routes) {
    std::vector<std::string> parameters;
    if (!MatchPath(route.path, target, &parameters)) continue;
    if (method == route.method) {
      match.route = &route;
      match.parameters = std::move(parameters);
      return match;
    }
    match.allow.append(match.allow.empty() ? "" : ", ").append(route.method);
  }
  return match;
}

}  // namespace stepwatch::http
