#include "operations/delivery/headers.h"

#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations::delivery {
namespace {

TEST_CASE("headers are lines of a name and a value, and anything else is refused without its value") {
  const auto headers = ParseHeaders("# a comment\nAuthorization: Bearer abc\r\n\nX-Scope-OrgID:7").value();
  REQUIRE(headers.size() == 2);
  CHECK(headers[0] == std::pair<std::string, std::string>("Authorization", "Bearer abc"));
  CHECK(headers[1] == std::pair<std::string, std::string>("X-Scope-OrgID", "7"));
  CHECK(ParseHeaders("").value().empty());
  for (const char* bad : {"secret", "a b: secret", ": secret", "a:", "a: secret\x01", "a: secret\xff"}) {
    const auto refused = ParseHeaders(std::string("Good: 1\n") + bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(testing::Has(refused.status().message(), "line 2 "));
    CHECK_FALSE(testing::Has(refused.status().message(), "secret"));
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += "A: 1\n";
  CHECK_FALSE(ParseHeaders(many).ok());
}

}  // namespace
}  // namespace stepwatch::operations::delivery
