#include "src/base/run_time.h"

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("times of run directories order as in a leap year") {
  const char* const ordered[] = {"Jan01_00-00-00", "Jan01_00-00-01", "Jan01_01-00-00", "Jan31_23-59-59",
                                 "Feb01_00-00-00", "Feb29_00-00-00", "Mar01_00-00-00", "Dec31_23-59-59"};
  for (size_t i = 1; i < std::size(ordered); ++i) CHECK(*TimeOfYear(ordered[i - 1]) < *TimeOfYear(ordered[i]));
  CHECK(TimeOfYear("Dec03_21-34-40-rank0-aaaaaaaa") == TimeOfYear("Dec03_21-34-40"));
}

TEST_CASE("what is no time of any year is nothing") {
  for (const char* text : {"", "Dec", "dec03_21-34-40", "Dec00_21-34-40", "Apr31_00-00-00", "Dec03_21-60-40", "Dec03"})
    CHECK(!TimeOfYear(text));
}

TEST_CASE("the text of a time reads back") {
  const auto parts = ParseRunTime(RunTimeText(1700000000));
  REQUIRE(parts);
  CHECK(parts->tm_mon == 10);
  CHECK(parts->tm_mday >= 14);
}

}  // namespace
}  // namespace stepwatch::base
