#include "operations/daemon/known_until.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("the time of the last line of each rank is known") {
  KnownUntil known;
  known.Note("r1", 0, 10);
  known.Note("r1", 0, 8);
  known.Note("r1", 1, 3);
  CHECK(known.Until("r1", 0) == 10);
  CHECK(known.Until("r1", 1) == 3);
  CHECK(known.Until("r2", 0) == 0);
}

TEST_CASE("ranks of runs that are over are forgotten") {
  KnownUntil known;
  for (int run = 0; run < 1000; ++run)
    for (int rank = 0; rank < 8; ++rank) known.Note("r" + std::to_string(run), rank, 1);
  known.KeepOnly({"r7"});
  CHECK(known.size() == 8);
  CHECK(known.Until("r7", 3) == 1);
  CHECK(known.Until("r8", 3) == 0);
}

}  // namespace
}  // namespace stepwatch::operations
