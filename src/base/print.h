// Text for standard output and standard error, which may be a terminal: control characters in names, paths and
// responses from other programs never reach it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace stepwatch::base {

// Prints like printf, filtered by TerminalText; the colours of `Coloured` stay if `out` is a terminal. Returns false if
// `out` is closed.
bool Print(std::FILE* out, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool PrintText(std::FILE* out, std::string_view text);
// The bytes that PrintText writes.
std::string SafeText(std::FILE* out, std::string_view text);

// The codes of colours. Each ends with kPlain.
inline constexpr std::string_view kPlain = "\x1b[0m", kBold = "\x1b[1m", kDim = "\x1b[2m", kRed = "\x1b[31m",
                                  kGreen = "\x1b[32m", kYellow = "\x1b[33m";

// True if `out` is a terminal that supports escape sequences, so not with TERM=dumb.
bool UnderstandsEscapes(std::FILE* out);

}  // namespace stepwatch::base
