// Any bytes as what a rank reads from the job's store: what is accepted is written again as text that reads the same.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "controller/agree/messages.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

template <class Read>
void CheckReadsBack(std::string_view text, Read read) {
  const auto message = read(text);
  if (!message) return;
  const auto again = read(Encode(*message));
  FUZZ_CHECK(again.has_value());
  FUZZ_CHECK(Encode(*again) == Encode(*message));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepwatch::agree;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckReadsBack(text, ProposalFrom);
  CheckReadsBack(text, DecisionFrom);
  CheckReadsBack(text, LatestFrom);
  WordsFrom(text);
  return 0;
}
