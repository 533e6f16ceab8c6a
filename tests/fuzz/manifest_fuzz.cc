// Any bytes as the manifest.json of a run: its sites are read, or it is refused with a reason.

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/output/manifest.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto sites = stepwatch::output::SitesFromManifest(std::string(reinterpret_cast<const char*>(data), size));
  FUZZ_CHECK(sites.ok() || !sites.status().message().empty());
  return 0;
}
