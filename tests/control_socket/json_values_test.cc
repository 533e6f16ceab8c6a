#include "controller/control_socket/json_values.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::control_socket {
namespace {

TEST_CASE("numbers that JSON cannot express are texts") {
  LatestValue value;
  value.record.value_count = 4;
  value.record.values[0].stat = Stat::kNorm;
  value.record.values[0].f64 = std::nan("");
  value.record.values[1].stat = Stat::kMax;
  value.record.values[1].f64 = -std::numeric_limits<double>::infinity();
  value.record.values[2].stat = Stat::kMean;
  value.record.values[2].f64 = 0.5;
  value.record.values[3].stat = Stat::kNans;
  value.record.values[3].is_integer = true;
  value.record.values[3].i64 = 7;
  const Json values = LatestJson(SiteKind::kActv, {value})["values"][0]["values"];
  CHECK(values["norm"] == "NaN");
  CHECK(values["max"] == "-Infinity");
  CHECK(values["mean"] == 0.5);
  CHECK(values["nans"] == 7);
}

TEST_CASE("JSON from outside is refused when it is none, and when it is too deep") {
  CHECK(json::Parse("{\"a\": [1, \"[[[[\\\"[[\"]}").ok());
  CHECK_FALSE(json::Parse("{").ok());
  CHECK_FALSE(json::Parse("").ok());
  CHECK(json::Parse(std::string(32, '[') + std::string(32, ']')).ok());
  CHECK(json::Parse(std::string(33, '[') + std::string(33, ']')).status().code() == StatusCode::kExhausted);
  CHECK_FALSE(json::Parse(std::string(1 << 20, '[')).ok());
}

}  // namespace
}  // namespace stepwatch::control_socket
