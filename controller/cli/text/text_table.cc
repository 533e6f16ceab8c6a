#include "controller/cli/text/text_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kCellBytesMax = 2000;

std::string_view EscapeCodeOf(Colour colour) {
  switch (colour) {
    case Colour::kPlain: break;
    case Colour::kDim: return base::kDim;
    case Colour::kGreen: return base::kGreen;
    case Colour::kYellow: return base::kYellow;
    case Colour::kRed: return base::kRed;
    case Colour::kBold: return base::kBold;
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

int TerminalWidth(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string Coloured(const std::string& text, Colour colour) {
  static const bool on = base::UnderstandsEscapes(stdout) && std::getenv("NO_COLOR") == nullptr;
  if (!on || colour == Colour::kPlain || text.empty()) return text;
  return std::string(EscapeCodeOf(colour)) + text + std::string(base::kPlain);
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

std::vector<Cell> HeadingRow(std::initializer_list<const char*> names) {
  std::vector<Cell> row;
  for (const char* name : names) row.push_back({name, Colour::kBold});
  return row;
}

std::string TableText(std::vector<std::vector<Cell>> rows) {
  for (auto& row : rows)
    for (Cell& cell : row) cell.text = base::Printable(cell.text, kCellBytesMax);
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i].text));
  }
  const int terminal = TerminalWidth(STDOUT_FILENO);
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
