// Any bytes as a line of a trace: what is taken is written as a line that reads back alike.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "operations/trace/parse_line.h"
#include "operations/trace/write_line.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepwatch::operations;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = ParseLine(text);
  if (!line.ok()) return 0;
  const std::string written = LineJson(line.value());
  const auto again = ParseLine(written);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(LineJson(again.value()) == written);
  return 0;
}
