#include "src/http/router.h"

#include "tests/catch.h"

namespace stepwatch::http {
namespace {

using Texts = std::vector<std::string>;

struct TestRoute {
  const char* method;
  const char* path;
};

const std::vector<TestRoute> kRoutes = {{"GET", "/v1/status"},
                                        {"GET", "/v1/runs/{run}"},
                                        {"GET", "/v1/silences"},
                                        {"POST", "/v1/silences"},
                                        {"GET", "/v1/runs/{run}/series/{name}"}};

Match<TestRoute> Find(const char* method, const char* target, PathRule rule) {
  return FindRoute(kRoutes, method, ParseTarget(target, rule));
}

TEST_CASE("a route is found by method and path, whatever the query") {
  const PathRule rule = GENERATE(PathRule::kVerbatim, PathRule::kLenient);
  CHECK(Find("GET", "/v1/status", rule).route == &kRoutes[0]);
  CHECK(Find("GET", "/v1/status?a=b/c?d", rule).route == &kRoutes[0]);
  CHECK(Find("GET", "/v1/status?a=b/c?d", rule).query == "a=b/c?d");
  CHECK(Find("GET", "/v1/runs/r1", rule).parameters == Texts{"r1"});
  CHECK(Find("GET", "/v1/runs/r1/series/loss", rule).parameters == Texts{"r1", "loss"});
  for (const char* target :
       {"", "/", "/v1", "/v1/", "/v1/runs", "/v1/runs/", "/v1/runs/a/b", "*", "http://h/v1/status"}) {
    CHECK(Find("GET", target, rule).route == nullptr);
    CHECK(Find("GET", target, rule).allow.empty());
  }
}

TEST_CASE("a method that the path does not allow gets those that it allows") {
  CHECK(Find("POST", "/v1/status", PathRule::kVerbatim).route == nullptr);
  CHECK(Find("POST", "/v1/status", PathRule::kVerbatim).allow == "GET");
  CHECK(Find("get", "/v1/status", PathRule::kVerbatim).allow == "GET");
  CHECK(Find("DELETE", "/v1/silences", PathRule::kLenient).allow == "GET, POST");
}

TEST_CASE("a verbatim path has one spelling") {
  for (const char* target : {"v1/status", "//v1/status", "/v1//status", "/v1/status/", "/v1/st%61tus"})
    CHECK(Find("GET", target, PathRule::kVerbatim).route == nullptr);
  CHECK(Find("GET", "/v1/runs/a%2Fb", PathRule::kVerbatim).parameters == Texts{"a%2Fb"});
}

TEST_CASE("a lenient path is decoded, without its empty parts") {
  for (const char* target : {"v1/status", "//v1/status", "/v1//status", "/v1/status/", "/v1/st%61tus"})
    CHECK(Find("GET", target, PathRule::kLenient).route == &kRoutes[0]);
  CHECK(ParseTarget("/v1/runs/a%2Fb%20c/x", PathRule::kLenient).parts == Texts{"v1", "runs", "a/b c", "x"});
  CHECK(ParseTarget("//%", PathRule::kLenient).parts == Texts{"%"});
  CHECK(ParseTarget("/%4", PathRule::kLenient).parts == Texts{"%4"});
  CHECK(ParseTarget("/%41%zz", PathRule::kLenient).parts == Texts{"A%zz"});
}

TEST_CASE("a query is read with its escapes") {
  auto query = ParseQuery("state=all&&run=%41%4&limit&a=1&a=b=c");
  CHECK(query.size() == 4);
  CHECK(query["state"] == "all");
  CHECK(query["run"] == "A%4");
  CHECK(query["limit"].empty());
  CHECK(query["a"] == "b=c");
  CHECK(ParseQuery("").empty());
}

TEST_CASE("a query of one number has exactly that parameter") {
  CHECK(NumberInQuery("", "plan", 7) == 7);
  CHECK(NumberInQuery("plan=3", "plan", 7) == 3);
  for (const char* query :
       {"plan", "plan=", "plan=-1", "plan=3 ", "plan=3&", "=3", "plans=3", "a=1&plan=3", "plan=18446744073709551616"})
    CHECK_FALSE(NumberInQuery(query, "plan", 7));
}

}  // namespace
}  // namespace stepwatch::http
