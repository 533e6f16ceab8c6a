// Explains a JSON syntax error to the author of the text.
//
// The JSON library reports a fault in its own terms and without positions. Found and expected tokens are derived from
// the end of the last key, value or bracket and from how far the lexer has read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/config/text_index.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

struct SyntaxFault {
  enum class After : uint8_t { kNothing, kKey, kOpenObject, kOpenList, kValue };

  After after = After::kNothing;  // the last complete token
  size_t after_end = 0;           // one past its last byte
  size_t bytes_read = 0;          // by the lexer
  bool text_ended = false;        // the lexer reached the end of the text
  char open = 0;                  // '{' or '[': the innermost open bracket; 0: none
  size_t open_begin = 0;
};

// The first byte from `offset` on that is neither white space nor part of a closed comment.
size_t SkipSpace(std::string_view text, size_t offset);

// kInvalid with the place of the first byte that does not fit, or of the end of the text.
Status DescribeSyntaxFault(std::string_view text, const TextIndex& index, const SyntaxFault& fault);

}  // namespace stepwatch::config
