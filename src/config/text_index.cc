#include "src/config/text_index.h"

#include <algorithm>
#include <cstdio>

#include "src/base/check.h"

namespace stepwatch::config {
namespace {

unsigned char ByteAt(std::string_view text, size_t offset) {
  return static_cast<unsigned char>(text[offset]);
}

// Properties of a lead byte (Unicode 15, table 3-7): the length, and the range of the second byte, which excludes
// overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xbf;
};

Lead LeadOf(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

// True if the text ends inside the character that begins at `offset`.
bool CutCharacterAt(std::string_view text, size_t offset) {
  const Lead lead = LeadOf(ByteAt(text, offset));
  if (lead.length <= text.size() - offset) return false;
  for (size_t i = offset + 1; i < text.size(); ++i) {
    const unsigned char least = i == offset + 1 ? lead.second_min : 0x80;
    const unsigned char most = i == offset + 1 ? lead.second_max : 0xbf;
    if (ByteAt(text, i) < least || ByteAt(text, i) > most) return false;
  }
  return true;
}

std::string NotUtf8Message(std::string_view text, size_t offset) {
  const bool utf16 = text.substr(0, 2) == "\xff\xfe" || text.substr(0, 2) == "\xfe\xff";
  if (utf16) return "found text in UTF-16; accepted: text in UTF-8";
  if (CutCharacterAt(text, offset)) return "the text ends inside a UTF-8 character";
  char message[80];
  std::snprintf(message, sizeof message, "found the byte 0x%02x, which is not UTF-8; accepted: text in UTF-8",
                ByteAt(text, offset));
  return message;
}

}  // namespace

size_t ByteOrderMark(std::string_view text) {
  return text.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
}

size_t Utf8CharacterBytes(std::string_view text, size_t offset) {
  if (offset >= text.size()) return 0;
  const Lead lead = LeadOf(ByteAt(text, offset));
  if (lead.length == 0 || lead.length > text.size() - offset) return 0;
  for (size_t i = 1; i < lead.length; ++i) {
    const unsigned char byte = ByteAt(text, offset + i);
    const unsigned char least = i == 1 ? lead.second_min : 0x80;
    const unsigned char most = i == 1 ? lead.second_max : 0xbf;
    if (byte < least || byte > most) return 0;
  }
  return lead.length;
}

TextIndex::TextIndex(std::string_view text) : text_(text) {
  line_begins_.push_back(ByteOrderMark(text));
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends_line = text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
    if (ends_line) line_begins_.push_back(i + 1);
  }
}

TextPlace TextIndex::Place(size_t offset, std::string key) const {
  STEPWATCH_CHECK(offset <= text_.size());
  offset = std::max(offset, line_begins_.front());
  const auto after = std::upper_bound(line_begins_.begin(), line_begins_.end(), offset);
  const size_t begin = *(after - 1);
  const auto characters = std::count_if(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                        text_.begin() + static_cast<std::ptrdiff_t>(offset),
                                        [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  return {std::move(key), static_cast<int>(after - line_begins_.begin()), static_cast<int>(characters) + 1};
}

std::string TextIndex::Words(size_t offset) const {
  const TextPlace place = Place(offset);
  return "line " + std::to_string(place.line) + ", column " + std::to_string(place.column);
}

Status CheckIsText(std::string_view text, const TextIndex& index) {
  for (size_t offset = 0; offset < text.size();) {
    const size_t bytes = Utf8CharacterBytes(text, offset);
    if (bytes == 0) return Status(StatusCode::kInvalid, NotUtf8Message(text, offset), index.Place(offset));
    if (text[offset] == '\0')
      return Status(StatusCode::kInvalid,
                    "found a zero byte: the file is not text, or is incomplete; accepted: text in UTF-8",
                    index.Place(offset));
    offset += bytes;
  }
  return Status();
}

}  // namespace stepwatch::config
