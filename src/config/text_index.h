// Converts byte offsets of a text to lines and columns, and checks that bytes are text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::config {

// The length of a UTF-8 byte order mark at the beginning of `text`: 3 or 0.
size_t ByteOrderMark(std::string_view text);

// The bytes of the UTF-8 character at `offset`, 0 if it is invalid: strict, so overlong forms, surrogates and values
// above U+10FFFF are invalid.
size_t Utf8CharacterBytes(std::string_view text, size_t offset);

// Lines end with \n, \r\n or \r, as in the parser's comments. Columns count characters from 1; a byte order mark has no
// column. Keeps a view of the text.
class TextIndex {
 public:
  explicit TextIndex(std::string_view text);

  // `offset` may be the end of the text.
  TextPlace Place(size_t offset, std::string key = {}) const;
  // "line 3, column 5"
  std::string Words(size_t offset) const;

 private:
  std::string_view text_;
  std::vector<size_t> line_begins_;
};

// Rejects, as kInvalid, bytes that are not strict UTF-8, comments included, and zero bytes, which the JSON lexer would
// treat as the end of the text.
Status CheckIsText(std::string_view text, const TextIndex& index);

}  // namespace stepwatch::config
