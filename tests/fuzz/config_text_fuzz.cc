// Any bytes as config.json: they are accepted or refused, twice alike.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/config/parse_config.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = stepwatch::config::ParseConfig(text);
  const auto second = stepwatch::config::ParseConfig(text);
  FUZZ_CHECK(first.ok() == second.ok());
  if (first.ok()) {
    FUZZ_CHECK(first.value().warnings.size() == second.value().warnings.size());
  } else {
    FUZZ_CHECK(!first.status().message().empty());
    FUZZ_CHECK(first.status().message() == second.status().message());
  }
  return 0;
}
