// Any bytes as a body of POST /v1/logs, and as a stream of syslog in pieces: lines are bounded.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "operations/log_intake/kernel_records.h"
#include "operations/log_intake/log_request.h"
#include "operations/log_intake/syslog_message.h"
#include "src/base/text.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace stepwatch;
using operations::SentLine;

void Check(const SentLine& line) {
  for (const std::string* name : {&line.id, &line.source, &line.host, &line.run, &line.component}) {
    FUZZ_CHECK(name->size() <= operations::kSentNameBytesMax);
    FUZZ_CHECK(base::ValidUtf8(*name) == *name);
  }
  FUZZ_CHECK(!line.rank || *line.rank >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto request = operations::ReadLogRequest(bytes, {"r1", 3});
  if (request.ok()) {
    for (const SentLine& line : request.value().lines) Check(line);
    FUZZ_CHECK(request.value().refusals.size() <= operations::kLogRefusalsMax);
  }
  // The pieces do not change what is read.
  operations::SyslogFramer whole, parts;
  std::vector<operations::SyslogFrame> of_whole, of_parts;
  const bool is_syslog = whole.Add(bytes, &of_whole);
  bool are_syslog = true;
  for (size_t at = 0, piece = 1; at < size && are_syslog; at += piece, piece = piece % 7 + 1)
    are_syslog = parts.Add(bytes.substr(at, piece), &of_parts);
  FUZZ_CHECK(is_syslog == are_syslog);
  FUZZ_CHECK(of_whole.size() == of_parts.size());
  for (size_t i = 0; i < of_whole.size(); ++i) {
    FUZZ_CHECK(of_whole[i].text == of_parts[i].text);
    Check(operations::ParseSyslog(of_whole[i]));
  }
  (void)operations::ParseKernelRecord(bytes);
  return 0;
}
