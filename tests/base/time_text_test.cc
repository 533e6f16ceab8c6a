#include "src/base/time_text.h"

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("a time is written in UTC and in the zone of the machine, in any format") {
  CHECK(UtcText(0) == "1970-01-01T00:00:00Z");
  CHECK(UtcText(86399, "%H-%M") == "23-59");
  CHECK(LocalText(0).starts_with(LocalText(0, "%Y-%m-%dT%H:%M:%S")));
}

}  // namespace
}  // namespace stepwatch::base
