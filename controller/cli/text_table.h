// Columns that line up, and colours, for terminals.
#pragma once

#include <cstddef>
#include <cstdint>
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

// A count or a step; "-" for one below zero, which stands for none.
std::string OrDash(int64_t number);

inline constexpr size_t kHashShown = 12;  // the first characters of a hash that a line has room for

struct Cell {
  std::string text;
  Colour colour = Colour::kPlain;
};

// The first row is the heading. On a terminal lines are cut at its width. Each cell is one line, whatever it holds.
std::string TableText(std::vector<std::vector<Cell>> rows);

}  // namespace stepwatch::cli
