// Aligned columns, and colours, for terminals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace stepwatch::cli {

enum class Colour { kPlain, kDim, kGreen, kYellow, kRed, kBold };

// Returns the text unchanged unless standard output is a terminal. With NO_COLOR in the environment it is unchanged
// there, too.
std::string Coloured(const std::string& text, Colour colour);
bool IsTerminal();
// The width of the terminal at a descriptor; 0: no terminal.
int TerminalWidth(int descriptor);

// In characters, not bytes.
size_t WidthOf(const std::string& text);
// The longest beginning of the text that is not wider.
std::string Cut(const std::string& text, size_t width);

// A count or a step; "-" for a negative one, which represents a missing number.
std::string OrDash(int64_t number);

inline constexpr size_t kHashShown = 12;  // the first characters of a hash that a line has room for

struct Cell {
  std::string text;
  Colour colour = Colour::kPlain;
};

// A row of names in bold.
std::vector<Cell> HeadingRow(std::initializer_list<const char*> names);

// The first row is the heading. On a terminal lines are cut at its width. Each cell is one line, whatever its text
// contains.
std::string TableText(std::vector<std::vector<Cell>> rows);

}  // namespace stepwatch::cli
