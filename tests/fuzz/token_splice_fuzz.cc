// The change of one token: whatever the text, true becomes false or false true, and no other byte changes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/config/parse_config.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using stepwatch::config::ParseConfig;
  using stepwatch::config::SpliceDynamicOn;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto off = SpliceDynamicOn(text, false), on = SpliceDynamicOn(text, true);
  if (!off.ok()) return 0;
  FUZZ_CHECK(on.ok());
  const std::string &with_false = off.value(), &with_true = on.value();
  FUZZ_CHECK(text == with_false || text == with_true);
  FUZZ_CHECK(with_false.size() == with_true.size() + 1);
  size_t same = 0;
  while (same < with_true.size() && with_true[same] == with_false[same]) ++same;
  FUZZ_CHECK(with_true.compare(same, 4, "true") == 0);
  FUZZ_CHECK(with_false.compare(same, 5, "false") == 0);
  FUZZ_CHECK(std::string_view(with_true).substr(same + 4) == std::string_view(with_false).substr(same + 5));
  // A text may be JSON and yet no config; the change of the token makes neither of the other.
  const auto parsed = ParseConfig(with_false);
  FUZZ_CHECK(parsed.ok() == ParseConfig(with_true).ok());
  if (parsed.ok()) FUZZ_CHECK(!parsed.value().config.dynamic_on);
  FUZZ_CHECK(SpliceDynamicOn(with_false, true).value() == with_true);
  FUZZ_CHECK(SpliceDynamicOn(with_true, false).value() == with_false);
  return 0;
}
