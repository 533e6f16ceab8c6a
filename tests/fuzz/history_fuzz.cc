// Any bytes as a stepwatch_history.jsonl: lines that were read say the same once they are written again, and hold no
// hash that could name another file.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/output/history.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepwatch::output;
  const auto history = ReadHistory(std::string_view(reinterpret_cast<const char*>(data), size));
  FUZZ_CHECK(history.ok() || !history.status().message().empty());
  if (!history.ok()) return 0;
  std::string text;
  for (const HistoryLine& line : history.value().lines) {
    FUZZ_CHECK(line.sha256.empty() || IsSha256(line.sha256));
    FUZZ_CHECK(line.old_sha256.empty() || IsSha256(line.old_sha256));
    text += HistoryText(line);
  }
  const auto again = ReadHistory(text);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again.value().notes.empty());
  FUZZ_CHECK(again.value().lines.size() == history.value().lines.size());
  std::string text_again;
  for (const HistoryLine& line : again.value().lines) text_again += HistoryText(line);
  FUZZ_CHECK(text_again == text);
  return 0;
}
