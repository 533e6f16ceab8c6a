// Any bytes as lines of a log: records are bounded, valid UTF-8, and written as JSON that parses.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "src/base/text.h"
#include "src/json/json.h"
#include "src/logs/reader.h"
#include "src/logs/write_record.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepwatch;
  static const logs::Recogniser recogniser;
  logs::ReaderOptions options;
  options.exception_lines_max = 8;
  options.writers_max = 4;
  logs::Reader reader(recogniser, options);
  std::vector<logs::Record> records;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t lines = 0;
  for (double t = 1.7e9; !text.empty(); t += 1, ++lines) {
    const size_t end = text.find('\n');
    reader.Add({.text = text.substr(0, end), .observed_t = t}, &records);
    if (lines % 4 == 3) reader.Flush(t, &records);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  reader.Flush(std::numeric_limits<double>::infinity(), &records);
  for (const logs::Record& record : records) {
    FUZZ_CHECK(record.message.size() <= logs::kMessageBytesMax);
    FUZZ_CHECK(base::ValidUtf8(record.message) == record.message);
    FUZZ_CHECK(record.attributes.size() <= logs::kAttributesMax);
    FUZZ_CHECK(json::Parse(logs::EcsJson(record, {})).ok());
    FUZZ_CHECK(json::Parse(logs::OtelJson(record, {})).ok());
  }
  return 0;
}
