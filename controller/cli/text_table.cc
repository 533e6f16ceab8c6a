#include "controller/cli/text_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace stepwatch::cli {
namespace {

constexpr size_t kGap = 2;

const char* EscapeCodeOf(Colour colour) {
  switch (colour) {
    case Colour::kPlain: break;
    case Colour::kDim: return "\x1b[2m";
    case Colour::kGreen: return "\x1b[32m";
    case Colour::kYellow: return "\x1b[33m";
    case Colour::kRed: return "\x1b[31m";
    case Colour::kBold: return "\x1b[1m";
  }
  return "";
}

}  // namespace

std::string OrDash(int64_t number) {
  return number < 0 ? "-" : std::to_string(number);
}

bool IsTerminal() {
  return ::isatty(STDOUT_FILENO) != 0;
}

int TerminalWidth() {
  winsize size{};
  if (!IsTerminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string Coloured(const std::string& text, Colour colour) {
  static const bool on = IsTerminal() && std::getenv("NO_COLOR") == nullptr;
  return on && colour != Colour::kPlain && !text.empty() ? EscapeCodeOf(colour) + text + "\x1b[0m" : text;
}

size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Cut(const std::string& text, size_t width) {
  size_t characters = 0, end = 0;
  while (end < text.size()) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && ++characters > width) break;
    ++end;
  }
  return text.substr(0, end);
}

std::string TableText(const std::vector<std::vector<Cell>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i].text));
  }
  const int terminal = TerminalWidth();
  std::string text;
  for (const auto& row : rows) {
    size_t left = terminal > 0 ? static_cast<size_t>(terminal) : std::string::npos;
    for (size_t i = 0; i < row.size() && left > 0; ++i) {
      const bool is_last = i + 1 == row.size();
      const std::string shown = left == std::string::npos ? row[i].text : Cut(row[i].text, left);
      const size_t padding = is_last ? 0 : widths[i] - WidthOf(row[i].text) + kGap;
      text += Coloured(shown, row[i].colour) + std::string(std::min(padding, left - WidthOf(shown)), ' ');
      if (left != std::string::npos) left -= std::min(left, WidthOf(shown) + padding);
    }
    text += '\n';
  }
  return text;
}

}  // namespace stepwatch::cli
