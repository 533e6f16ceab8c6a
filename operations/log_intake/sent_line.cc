#include "operations/log_intake/sent_line.h"

#include "src/base/sha256.h"
#include "src/logs/clean_text.h"

namespace stepwatch::operations {

std::string SentName(std::string_view untrusted) {
  return std::string(logs::CutUtf8(logs::CleanText(untrusted), kSentNameBytesMax));
}

std::string SentId(std::string_view text) {
  constexpr size_t kDigits = 32;
  return base::Sha256Hex(text).substr(0, kDigits);
}

logs::Level LevelOfSeverity(int severity) {
  using logs::Level;
  constexpr Level kLevels[] = {Level::kFatal,   Level::kFatal, Level::kFatal, Level::kError,
                               Level::kWarning, Level::kInfo,  Level::kInfo,  Level::kDebug};
  return severity >= 0 && severity < 8 ? kLevels[severity] : Level::kUnset;
}

}  // namespace stepwatch::operations
