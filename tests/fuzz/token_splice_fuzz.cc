// The write-back's change of one token: whatever the text, true becomes false once and no other byte changes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/config/parse_config.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using stepwatch::config::ParseConfig;
  using stepwatch::config::SpliceDynamicOnFalse;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spliced = SpliceDynamicOnFalse(text);
  if (!spliced.ok()) return 0;
  const std::string& result = spliced.value();
  FUZZ_CHECK(result.size() == size + 1);
  size_t same = 0;
  while (same < size && text[same] == result[same]) ++same;
  FUZZ_CHECK(text.substr(same, 4) == "true");
  FUZZ_CHECK(result.compare(same, 5, "false") == 0);
  FUZZ_CHECK(text.substr(same + 4) == std::string_view(result).substr(same + 5));
  // A text may be JSON and yet no config; the change of the token makes neither of the other.
  const auto parsed = ParseConfig(result);
  FUZZ_CHECK(parsed.ok() == ParseConfig(text).ok());
  if (parsed.ok()) FUZZ_CHECK(!parsed.value().config.dynamic_on);
  FUZZ_CHECK(!SpliceDynamicOnFalse(result).ok());
  return 0;
}
