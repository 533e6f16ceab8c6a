#include "src/base/retry.h"

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("pauses grow to the longest one and begin anew after a success") {
  Retry retry(1, 5);
  for (const double pause : {1, 2, 4, 5, 5}) CHECK(retry.Next() == pause);
  retry.Reset();
  CHECK(retry.Next() == 1);
}

}  // namespace
}  // namespace stepwatch::base
