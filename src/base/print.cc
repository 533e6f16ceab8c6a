#include "src/base/print.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdlib>

#include "src/base/text.h"

namespace stepwatch::base {
namespace {

// The colour code at the beginning of the text; empty if there is none.
std::string_view ColourIn(std::string_view text) {
  for (const std::string_view colour : {kPlain, kBold, kDim, kRed, kGreen, kYellow})
    if (text.starts_with(colour)) return colour;
  return {};
}

std::string WithColours(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::string_view colour = ColourIn(text);
    const std::string_view part = colour.empty() ? text.substr(0, text.find('\x1b', 1)) : colour;
    safe += colour.empty() ? TerminalText(part) : std::string(part);
    text.remove_prefix(part.size());
  }
  return safe;
}

}  // namespace

bool UnderstandsEscapes(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  const bool shows_lines_alone = kind == nullptr || std::string_view(kind).empty() || std::string_view(kind) == "dumb";
  return ::isatty(::fileno(out)) != 0 && !shows_lines_alone;
}

std::string SafeText(std::FILE* out, std::string_view text) {
  return UnderstandsEscapes(out) ? WithColours(text) : TerminalText(text);
}

bool PrintText(std::FILE* out, std::string_view text) {
  const std::string safe = SafeText(out, text);
  return std::fwrite(safe.data(), 1, safe.size(), out) == safe.size();
}

bool Print(std::FILE* out, const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(length < 0 ? 0 : static_cast<size_t>(length), '\0');
  (void)std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return PrintText(out, text);
}

}  // namespace stepwatch::base
