// Why a text is not JSON, as a sentence for the person who wrote it.
//
// The JSON library reports a fault in its own terms and keeps no places; what was found and what was expected follow
// from where the last key, value or bracket ended and how far its lexer has read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/config/text_index.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

struct SyntaxFault {
  enum class After : uint8_t { kNothing, kKey, kOpenObject, kOpenList, kValue };

  After after = After::kNothing;  // the last thing that was read whole
  size_t after_end = 0;           // one past its last byte
  size_t bytes_read = 0;          // by the lexer
  bool text_ended = false;        // the lexer wanted more than there is
  char open = 0;                  // '{' or '[': the innermost bracket that is open; 0: none
  size_t open_begin = 0;
};

// The first byte from `offset` on that is neither white space nor part of a closed comment.
size_t SkipSpace(std::string_view text, size_t offset);

// kInvalid with the place of the first byte that does not fit, or of the end of the text.
Status DescribeSyntaxFault(std::string_view text, const TextIndex& index, const SyntaxFault& fault);

}  // namespace stepwatch::config
