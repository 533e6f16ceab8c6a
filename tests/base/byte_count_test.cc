// Numbers of bytes are read and written as people do it.
#include "src/base/byte_count.h"

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("a number of bytes may have a unit") {
  CHECK(ParseByteCount("0") == 0);
  CHECK(ParseByteCount("4096") == 4096);
  CHECK(ParseByteCount("64K") == 65536);
  CHECK(ParseByteCount("64 KiB") == 65536);
  CHECK(ParseByteCount("1.5g") == 1610612736);
  CHECK(ParseByteCount("2TB") == uint64_t{2} << 40);
  CHECK(ParseByteCount("7B") == 7);
}

TEST_CASE("what is no number of bytes is not guessed at") {
  for (const char* text : {"", "G", "-1", "1X", "1GX", "1 ", "1  G", "nan", "inf", "0x10", "1,5G", "1e3", "99999999T"})
    CHECK_FALSE(ParseByteCount(text).has_value());
}

TEST_CASE("a number of bytes is printed in the unit that fits") {
  CHECK(ByteCountText(0) == "0 B");
  CHECK(ByteCountText(1023) == "1023 B");
  CHECK(ByteCountText(4096) == "4.0 KiB");
  CHECK(ByteCountText(uint64_t{3} << 29) == "1.5 GiB");
  CHECK(ByteCountText(uint64_t{5000} << 40) == "5000.0 TiB");
}

}  // namespace
}  // namespace stepwatch::base
