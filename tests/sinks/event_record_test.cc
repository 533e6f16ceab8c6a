#include "src/sinks/event_record.h"

#include <cmath>
#include <limits>
#include <string>

#include "tests/catch.h"

namespace stepwatch::sinks {
namespace {

TEST_CASE("the checksum is CRC-32C") {
  // Vectors of RFC 3720, appendix B.4, and the usual check value.
  std::string ascending;
  std::string descending;
  for (int i = 0; i < 32; ++i) {
    ascending += static_cast<char>(i);
    descending += static_cast<char>(31 - i);
  }
  CHECK(Crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(Crc32c(ascending) == 0x46dd794eu);
  CHECK(Crc32c(descending) == 0x113fdb5cu);
  CHECK(Crc32c("123456789") == 0xe3069283u);
  CHECK(Crc32c("") == 0u);
}

TEST_CASE("a record is length, masked checksum of the length, payload, masked checksum of the payload") {
  std::string bytes;
  AppendRecord("abc", &bytes);
  REQUIRE(bytes.size() == 8 + 4 + 3 + 4);
  CHECK(bytes.substr(0, 8) == std::string("\x03\0\0\0\0\0\0\0", 8));
  CHECK(bytes.substr(12, 3) == "abc");
  const auto number = [&bytes](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
  };
  CHECK(number(8) == MaskedCrc32c(bytes.substr(0, 8)));
  CHECK(number(15) == MaskedCrc32c("abc"));
  const uint32_t crc = Crc32c("abc");
  CHECK(number(15) == static_cast<uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u));
}

std::string PayloadOf(const std::string& record) {
  return record.substr(12, record.size() - 16);
}

TEST_CASE("the first record of a file names the version as TensorBoard expects it") {
  std::string bytes;
  AppendVersionRecord(1.0, &bytes);
  // Field 1, a double; field 3, text.
  CHECK(PayloadOf(bytes) == std::string("\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                                        "brain.Event:2",
                                        24));
}

TEST_CASE("a summary record holds the step and a tag with a value, zero included, or with a picture") {
  // Fields: 1 wall time, 2 step, 5 summary { 1 value { 1 tag, 2 simple value or
  //         4 image { 1 height, 2 width, 3 colorspace, 4 encoded bytes } } }.
  struct Case {
    SummaryEvent event;
    std::string summary;
  };
  const Case cases[] = {{{1.0, 7, {{"t", 0.5}}}, {"\x2a\x0a\x0a\x08\x0a\x01t\x15\0\0\0\x3f", 12}},
                        {{1.0, 7, {{"t", 0.0}}}, {"\x2a\x0a\x0a\x08\x0a\x01t\x15\0\0\0\0", 12}},
                        {{1.0, 7, {}, {{"t", 2, 3, "png"}}},
                         {"\x2a\x12\x0a\x10\x0a\x01t\x22\x0b\x08\x03\x10\x02\x18\x03\x22\x03png", 20}}};
  for (const auto& [event, summary] : cases) {
    std::string bytes;
    AppendSummaryRecord(event, &bytes);
    CHECK(PayloadOf(bytes) == std::string("\x09\0\0\0\0\0\0\xf0\x3f\x10\x07", 11) + summary);
  }
}

TEST_CASE("values beyond the range of float become infinite") {
  std::string huge;
  std::string infinite;
  AppendSummaryRecord({1.0, 7, {{"t", -1e300}}}, &huge);
  AppendSummaryRecord({1.0, 7, {{"t", -std::numeric_limits<double>::infinity()}}}, &infinite);
  CHECK(huge == infinite);
}

}  // namespace
}  // namespace stepwatch::sinks
