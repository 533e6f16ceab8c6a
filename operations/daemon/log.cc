#include "operations/daemon/log.h"

#include <cstdio>
#include <ctime>

#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kLogLineBytesMax = 8 << 10;

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "";
}

}  // namespace

void Log(LogLevel level, std::string_view text) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  (void)::gmtime_r(&now, &parts);
  char stamp[32] = "";
  (void)std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
  base::Print(stderr, "%s %s: %s\n", stamp, NameOf(level), base::Printable(text, kLogLineBytesMax).c_str());
}

}  // namespace stepwatch::operations
