#include "src/config/syntax_fault.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "src/base/text.h"

namespace stepwatch::config {
namespace {

using After = SyntaxFault::After;

constexpr size_t kTokenBytesShown = 40;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsWordByte(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '+' || c == '-';
}

// The token that does not fit, and the comma or colon right before it (0: none). Only separators lie between the last
// complete token and the bad one, so scanning them as far as the lexer read finds it.
struct BadToken {
  size_t begin = 0;
  char separator = 0;
};

BadToken FindBadToken(std::string_view text, const SyntaxFault& fault) {
  BadToken token{SkipSpace(text, fault.after_end), 0};
  while (token.begin < text.size() && (text[token.begin] == ',' || text[token.begin] == ':')) {
    const size_t next = SkipSpace(text, token.begin + 1);
    if (next >= fault.bytes_read && !fault.text_ended) break;
    token = {next, text[token.begin]};
  }
  return token;
}

std::string Expected(const SyntaxFault& fault, char separator) {
  switch (fault.after) {
    case After::kNothing: return "'{'";
    case After::kKey: return separator == ':' ? "a value" : "':' and a value";
    case After::kOpenObject: return "a key in double quotes or '}'";
    case After::kOpenList: return "a value or ']'";
    case After::kValue: break;
  }
  if (fault.open == 0) return "the end of the text, since the JSON is complete";
  if (separator == ',') return fault.open == '{' ? "a key in double quotes" : "a value";
  return fault.open == '{' ? "',' or '}'" : "',' or ']'";
}

bool ValueExpected(const SyntaxFault& fault, char separator) {
  if (fault.after == After::kKey) return separator == ':';
  if (fault.after == After::kValue) return fault.open == '[' && separator == ',';
  return fault.after == After::kOpenList || fault.after == After::kNothing;
}

// One past the closing quote of the string at `begin`, or past its first byte that is invalid in a string.
size_t StringEnd(std::string_view text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && text[i] != '"' && static_cast<unsigned char>(text[i]) >= 0x20) i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

uint32_t CodePoint(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return byte(0);
  uint32_t value = byte(0) & (0xffu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) value = value << 6 | (byte(i) & 0x3f);
  return value;
}

// Neither a control character nor a space, joiner or direction mark of Unicode's general punctuation.
bool IsVisible(uint32_t code) {
  const bool space_or_mark = (code >= 0x2000 && code <= 0x200f) || (code >= 0x2028 && code <= 0x202f) ||
                             (code >= 0x205f && code <= 0x206f) || code == 0x3000 || code == 0xfeff;
  return code > 0xa0 && !space_or_mark;
}

std::string Quoted(std::string_view token) {
  return "'" + base::Printable(token, kTokenBytesShown) + "'";
}

// An unterminated string, as far as its line.
std::string FoundString(std::string_view text, size_t begin) {
  std::string_view string = text.substr(begin, StringEnd(text, begin) - begin);
  while (string.ends_with('\n') || string.ends_with('\r')) string.remove_suffix(1);
  return base::Printable(string, kTokenBytesShown);
}

std::string FoundToken(std::string_view text, size_t begin) {
  if (text[begin] == '"') return FoundString(text, begin) + " (a string)";
  size_t end = begin;
  while (end < text.size() && IsWordByte(text[end])) ++end;
  if (end > begin) return Quoted(text.substr(begin, end - begin));
  const std::string_view character = text.substr(begin, Utf8CharacterBytes(text, begin));
  const uint32_t code = CodePoint(character);
  if (code > 0x20 && code < 0x7f) return Quoted(character);
  // For control characters, look-alikes and invisible ones, the number identifies the character.
  char name[16];
  std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(code));
  return "the character " + (IsVisible(code) ? Quoted(character) + " (" + name + ")" : std::string(name));
}

// A hint for the most common mistakes in handwritten JSON, by the first bytes of the bad token; empty if none applies.
std::string Hint(std::string_view text, size_t begin, const SyntaxFault& fault, char separator) {
  const std::string_view rest = text.substr(begin);
  const auto begins = [&](std::string_view word) { return rest.substr(0, word.size()) == word; };
  if (separator == ',' && (begins("}") || begins("]"))) return "remove the comma before it";
  if (begins("True") || begins("False") || begins("None")) return "write true, false or null";
  if (begins("NaN") || begins("Inf") || begins("-Inf") || begins("nan")) return "JSON has no NaN and no infinity";
  if (begins("'") || begins("\xe2\x80\x9c") || begins("\xe2\x80\x9d")) return "strings need double quotes: \"\"";
  if (begins("#") || begins("/")) return "comments are // or /* */";
  if (begins(";")) return "values are separated by commas";
  if (ValueExpected(fault, separator) && (begins("+") || begins("."))) return "a number begins with a digit or '-'";
  const bool touches_zero = begin > 0 && begin == fault.after_end && text[begin - 1] == '0' && IsDigit(rest[0]);
  if (touches_zero) return "a number does not begin with 0";
  if (ValueExpected(fault, separator) && (IsDigit(rest[0]) || rest[0] == '-')) return "not a number in JSON";
  const bool comma_missing = fault.after == After::kValue && fault.open != 0 && separator == 0;
  if (comma_missing && (begins("\"") || begins("{") || begins("["))) return "is a comma missing before it?";
  return {};
}

bool IsHex(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// The number after \u at `at` (a backslash), -1 if four hexadecimal digits do not follow.
int EscapedUnit(std::string_view text, size_t at) {
  const std::string_view digits = text.substr(std::min(at, text.size())).substr(0, 6);
  if (digits.size() < 6 || digits.substr(0, 2) != "\\u") return -1;
  if (!std::all_of(digits.begin() + 2, digits.end(), IsHex)) return -1;
  return static_cast<int>(std::strtol(std::string(digits.substr(2)).c_str(), nullptr, 16));
}

struct StringFault {
  size_t at = 0;
  std::string message;
};

// Returns the fault of the escape at `i`; otherwise moves `i` past it.
std::optional<StringFault> CheckEscape(std::string_view text, size_t& i) {
  const char escaped = i + 1 < text.size() ? text[i + 1] : '"';
  if (std::string_view("\"\\/bfnrtu").find(escaped) == std::string_view::npos)
    return StringFault{i,
                       "found " + Quoted(text.substr(i, 1 + Utf8CharacterBytes(text, i + 1))) +
                           " inside a string; expected \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u (a backslash itself is "
                           "written \\\\)"};
  if (escaped != 'u') {
    i += 2;
    return std::nullopt;
  }
  const int unit = EscapedUnit(text, i);
  if (unit < 0) return StringFault{i, "found \\u without four hexadecimal digits; expected four, as in \\u00e9"};
  const bool high = unit >= 0xd800 && unit < 0xdc00;
  const int next = high ? EscapedUnit(text, i + 6) : 0;
  if ((unit >= 0xdc00 && unit < 0xe000) || (high && (next < 0xdc00 || next >= 0xe000)))
    return StringFault{i, "found " + Quoted(text.substr(i, 6)) +
                              ", half of a surrogate pair; expected \\ud800 to \\udbff followed by \\udc00 to \\udfff"};
  i += high ? 12 : 6;
  return std::nullopt;
}

// The first invalid part inside the string at `begin`; nullopt if the string itself is valid.
std::optional<StringFault> FindStringFault(std::string_view text, size_t begin) {
  size_t i = begin + 1;
  while (i < text.size() && text[i] != '"') {
    const char c = text[i];
    if (c == '\n' || c == '\r')
      return StringFault{begin, "found " + FoundString(text, begin) + ", a string that is not closed on its line" +
                                    "; expected '\"' before the end of the line (a line break is written \\n)"};
    if (c == '\t') return StringFault{i, "found a tab inside a string; expected \\t"};
    if (static_cast<unsigned char>(c) < 0x20)
      return StringFault{i, "found the control character " + base::Printable(text.substr(i, 1)) +
                                " inside a string; expected \\u and its number in four hexadecimal digits"};
    if (c != '\\') {
      ++i;
    } else if (auto fault = CheckEscape(text, i)) {
      return fault;
    }
  }
  return std::nullopt;
}

Status DescribeEnd(std::string_view text, const TextIndex& index, const SyntaxFault& fault, size_t token) {
  if (fault.after == After::kNothing && token == text.size())
    return Status(StatusCode::kInvalid, "the file is empty; expected at least {}", index.Place(text.size()));
  std::string message = "the text ends before the JSON is complete";
  const auto not_closed = [&](const std::string& what, size_t begin) {
    message += ": " + what + " at " + index.Words(begin) + " is not closed";
  };
  if (token < text.size() && text[token] == '"')
    not_closed("the string", token);
  else if (text.substr(token, 2) == "/*")
    not_closed("the comment", token);
  else if (fault.open != 0)
    not_closed(std::string("the '") + fault.open + "'", fault.open_begin);
  return Status(StatusCode::kInvalid, message, index.Place(text.size()));
}

}  // namespace

size_t SkipSpace(std::string_view text, size_t offset) {
  constexpr std::string_view kSpace = " \t\r\n";
  while (true) {
    offset = std::min(text.find_first_not_of(kSpace, offset), text.size());
    const std::string_view two = text.substr(offset, 2);
    if (two == "//") {
      offset = std::min(text.find_first_of("\r\n", offset), text.size());
    } else if (two == "/*") {
      const size_t end = text.find("*/", offset + 2);
      if (end == std::string_view::npos) return offset;
      offset = end + 2;
    } else {
      return offset;
    }
  }
}

Status DescribeSyntaxFault(std::string_view text, const TextIndex& index, const SyntaxFault& fault) {
  const BadToken token = FindBadToken(text, fault);
  if (fault.text_ended || token.begin >= text.size()) return DescribeEnd(text, index, fault, token.begin);
  if (text[token.begin] == '"')
    if (const auto bad = FindStringFault(text, token.begin))
      return Status(StatusCode::kInvalid, bad->message, index.Place(bad->at));
  std::string message = "found " + FoundToken(text, token.begin) + "; expected " + Expected(fault, token.separator);
  const std::string hint = Hint(text, token.begin, fault, token.separator);
  if (!hint.empty()) message += " (" + hint + ")";
  return Status(StatusCode::kInvalid, message, index.Place(token.begin));
}

}  // namespace stepwatch::config
