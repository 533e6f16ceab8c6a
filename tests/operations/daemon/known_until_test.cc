#include "operations/daemon/known_until.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("the time of the last line of each rank is known") {
  KnownUntil heard;
  heard.Note("r1", 0, 10);
  heard.Note("r1", 0, 8);
  heard.Note("r1", 1, 3);
  CHECK(heard.Until("r1", 0) == 10);
  CHECK(heard.Until("r1", 1) == 3);
  CHECK(heard.Until("r2", 0) == 0);
}

TEST_CASE("ranks of runs that are over are forgotten") {
  KnownUntil heard;
  for (int run = 0; run < 1000; ++run)
    for (int rank = 0; rank < 8; ++rank) heard.Note("r" + std::to_string(run), rank, 1);
  heard.KeepOnly({"r7"});
  CHECK(heard.size() == 8);
  CHECK(heard.Until("r7", 3) == 1);
  CHECK(heard.Until("r8", 3) == 0);
}

}  // namespace
}  // namespace stepwatch::operations
