// Numbers as the CSV files print them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepwatch::vocabulary {

// Python's repr of a float: the shortest text that reads back to the same double, always with ".0" or an exponent
// ("1e-05", "10000000000.0", "1.5e+16"), "nan", "inf", "-inf". ndigits >= 0: first rounded half to even to that many
// decimal places, as numpy.around does, except that a value that the scaling would overflow stays as it is.
void AppendDouble(double value, int ndigits, std::string* text);
void AppendInteger(int64_t value, std::string* text);
// A CSV cell with minimal quoting (comma, quote, CR, LF).
void AppendCell(std::string_view cell, std::string* text);

}  // namespace stepwatch::vocabulary
