#include "controller/cli/id_prefix.h"

#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

const std::vector<KnownId> kKnown = {{"1a2b", "stuck in r1"}, {"1a2c", "loss_spike in r2"}, {"9", ""}, {"95", ""}};

TEST_CASE("the beginning that one id has means that id") {
  CHECK(MeantId("1a2b", kKnown, "incident").value() == "1a2b");
  CHECK(MeantId("1a2c", kKnown, "incident").value() == "1a2c");
  CHECK(MeantId("95", kKnown, "incident").value() == "95");
}

TEST_CASE("an id that others begin with means itself") {
  CHECK(MeantId("9", kKnown, "incident").value() == "9");
}

TEST_CASE("a beginning that several ids have is refused with all of them") {
  const Status status = MeantId("1a", kKnown, "incident").status();
  CHECK(status.code() == StatusCode::kInvalid);
  CHECK(status.message() == "the id of 2 incidents begins with \"1a\": 1a2b (stuck in r1), 1a2c (loss_spike in r2)");
  CHECK(MeantId("", kKnown, "incident").status().code() == StatusCode::kInvalid);
}

TEST_CASE("a beginning that no id has is not found, and cannot steer a terminal") {
  const Status status = MeantId("\x1b[2J", kKnown, "run").status();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message() == "stepwatchd has no run with the id prefix \"\\x1b[2J\"");
}

TEST_CASE("long ids are cut to what no other has, short ones are whole") {
  CHECK(ShortIds({"r1", "my-run", "0123456789abcdef"}) == std::vector<std::string>{"r1", "my-run", "0123456789abcdef"});
  CHECK(ShortIds({"0123456789abcdef0", "0123456789abXXXXX", "fedcba9876543210f"}) ==
        std::vector<std::string>{"0123456789abc", "0123456789abX", "fedcba98"});
  CHECK(ShortIds({"0123456789abcdef0", "0123456789abcdef0"}) == std::vector<std::string>{"01234567", "01234567"});
  CHECK(ShortIds({}).empty());
}

}  // namespace
}  // namespace stepwatch::cli
