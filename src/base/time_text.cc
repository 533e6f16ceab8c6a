#include "src/base/time_text.h"

namespace stepwatch::base {
namespace {

std::string TextOf(const std::tm& parts, const char* format) {
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &parts));
}

}  // namespace

std::string LocalText(std::time_t time, const char* format) {
  std::tm parts{};
  ::localtime_r(&time, &parts);
  return TextOf(parts, format);
}

std::string UtcText(std::time_t time, const char* format) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return TextOf(parts, format);
}

}  // namespace stepwatch::base
