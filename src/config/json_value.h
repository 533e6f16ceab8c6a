// JSON as a tree that keeps the position of each value and key in its text, and the file order of members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/text_index.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;  // one past the last byte
};

struct JsonValue {
  // A number is an integer if it is written without '.', 'e' and 'E'.
  enum class Kind : uint8_t { kNull, kBool, kInteger, kFloat, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  ByteRange range;
  bool boolean = false;
  std::optional<int64_t> integer;  // kInteger, if it fits
  double number = 0;               // kInteger and kFloat, finite
  std::string string;              // kString, escapes resolved
  std::string key;                 // member of an object, escapes resolved
  ByteRange key_range;             // with its quotes
  std::vector<JsonValue> children;

  bool Is(Kind wanted) const { return kind == wanted; }
  // The member of an object; null if absent.
  const JsonValue* Member(std::string_view name) const;
};

// `text` must outlive the document.
struct JsonDocument {
  std::string_view text;
  TextIndex index;
  JsonValue root;
};

// Reads one JSON value with // and /* */ comments. Errors: kInvalid for a text that is not strict UTF-8, not JSON, or
// has a duplicate key in one object; kExhausted for more than `depth_max` nested lists and objects; kOutOfRange for a
// number too large for a double.
Result<JsonDocument> ReadJson(std::string_view text_untrusted, int depth_max);

// The position in `text` of byte `byte` of a string value written at `written`. An escape is one position.
size_t PlaceInString(std::string_view text, ByteRange written, size_t byte);

// Dotted paths of places: "alert" + "rules" + 0 is "alert.rules[0]".
std::string PathOfMember(const std::string& parent, std::string_view key_untrusted);
std::string PathOfElement(const std::string& parent, size_t i);

}  // namespace stepwatch::config
