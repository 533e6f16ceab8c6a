// Columns that line up, and colours, for terminals.
#pragma once

#include <string>
#include <vector>

namespace stepwatch::cli {

enum class Colour { kPlain, kDim, kGreen, kYellow, kRed, kBold };

// The text as it is unless standard output is a terminal. NO_COLOR in the environment keeps it plain there, too.
std::string Coloured(const std::string& text, Colour colour);
bool IsTerminal();
int TerminalWidth();  // 0: no terminal

// In characters, not bytes.
size_t WidthOf(const std::string& text);
// The text, or as much of it as is not wider.
std::string Cut(const std::string& text, size_t width);

struct Cell {
  std::string text;
  Colour colour = Colour::kPlain;
};

// The first row is the heading. On a terminal lines are cut at its width.
std::string TableText(const std::vector<std::vector<Cell>>& rows);

}  // namespace stepwatch::cli
