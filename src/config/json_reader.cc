// ReadJson: the JSON library's SAX parser over a counting iterator, into a JsonValue tree.

#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/config/json_value.h"
#include "src/config/syntax_fault.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

// Counts the bytes read by the lexer, through a counter shared with its copies. The lexer does not expose positions to
// a SAX handler, and reads one byte more than a number has.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* count_;
};

// One past the JSON number at `begin`, by the grammar: the next characters may look like more of it, as in 01 or 1-2.
size_t NumberEnd(std::string_view text, size_t begin) {
  size_t end = begin;
  const auto take = [&](std::string_view any_of) {
    if (end == text.size() || any_of.find(text[end]) == std::string_view::npos) return false;
    ++end;
    return true;
  };
  const auto take_digits = [&] {
    while (take("0123456789"))
      ;
  };
  take("-");
  if (!take("0")) take_digits();
  if (take(".")) take_digits();
  if (take("eE")) {
    take("+-");
    take_digits();
  }
  return end;
}

// The SAX handler. Invariant: `end_` is the end of the last key, value or bracket received, so the next token begins at
// the first byte from there that is neither space, comment nor separator. A handler that returns false ends the parse;
// `refusal_` then holds the error.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, const TextIndex& index, int depth_max, const size_t& bytes_read)
      : text_(text), index_(index), depth_max_(depth_max), bytes_read_(bytes_read), end_(ByteOrderMark(text)) {}

  // NOLINTBEGIN(readability-identifier-naming): the names are the library's.
  bool null() { return AddWord(Kind::kNull, 4); }
  bool boolean(bool value) {
    JsonValue word = NewValue(Kind::kBool, value ? 4 : 5);
    word.boolean = value;
    return Add(std::move(word));
  }
  bool number_integer(int64_t) { return AddNumber(); }
  bool number_unsigned(uint64_t) { return AddNumber(); }
  bool number_float(double, const std::string&) { return AddNumber(); }
  bool string(std::string& value) {
    JsonValue text = NewValue(Kind::kString, 0);
    text.range.end = bytes_read_;
    text.string = std::move(value);
    return Add(std::move(text));
  }
  template <class Binary>
  bool binary(Binary&) {
    return false;  // JSON text has no binary values
  }
  bool start_object(size_t) { return Open(Kind::kObject); }
  bool start_array(size_t) { return Open(Kind::kArray); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name);
  bool parse_error(size_t lexer_position, const std::string& token, const nlohmann::json::exception& error);
  // NOLINTEND(readability-identifier-naming)

  const Status& refusal() const { return refusal_; }
  JsonValue TakeRoot() { return std::move(root_); }

 private:
  struct OpenContainer {
    JsonValue value;
    std::unordered_set<std::string> keys;
    std::string key;  // of the next member
    ByteRange key_range;
  };

  size_t TokenBegin() const;
  std::string Path() const;
  JsonValue NewValue(Kind kind, size_t bytes);
  bool AddWord(Kind kind, size_t bytes) { return Add(NewValue(kind, bytes)); }
  bool AddNumber();
  bool Add(JsonValue value);
  bool Open(Kind kind);
  bool Close();
  bool Refuse(StatusCode code, std::string message, size_t offset, std::string path) {
    refusal_ = Status(code, std::move(message), index_.Place(offset, std::move(path)));
    return false;
  }

  std::string_view text_;
  const TextIndex& index_;
  const int depth_max_;
  const size_t& bytes_read_;
  size_t end_;
  SyntaxFault::After after_ = SyntaxFault::After::kNothing;
  std::vector<OpenContainer> open_;
  JsonValue root_;
  Status refusal_;
};

size_t TreeBuilder::TokenBegin() const {
  size_t begin = SkipSpace(text_, end_);
  while (begin < text_.size() && (text_[begin] == ',' || text_[begin] == ':')) begin = SkipSpace(text_, begin + 1);
  return begin;
}

// Path of the next value.
std::string TreeBuilder::Path() const {
  std::string path;
  for (size_t i = 0; i < open_.size(); ++i) {
    const OpenContainer& container = open_[i];
    const std::string& key = i + 1 < open_.size() ? open_[i + 1].value.key : container.key;
    path = container.value.Is(Kind::kObject) ? PathOfMember(path, key)
                                             : PathOfElement(path, container.value.children.size());
  }
  return path;
}

JsonValue TreeBuilder::NewValue(Kind kind, size_t bytes) {
  JsonValue value;
  value.kind = kind;
  const size_t begin = TokenBegin();
  value.range = {begin, begin + bytes};
  if (!open_.empty() && open_.back().value.Is(Kind::kObject)) {
    value.key = std::move(open_.back().key);
    value.key_range = open_.back().key_range;
  }
  return value;
}

bool TreeBuilder::AddNumber() {
  const size_t begin = TokenBegin();
  const std::string_view digits = text_.substr(begin, NumberEnd(text_, begin) - begin);
  const bool integer = digits.find_first_of(".eE") == std::string_view::npos;
  JsonValue value = NewValue(integer ? Kind::kInteger : Kind::kFloat, digits.size());
  int64_t whole = 0;
  if (integer && std::from_chars(digits.begin(), digits.end(), whole).ec == std::errc()) value.integer = whole;
  // Parses the text again instead of using the library's double, which went through strtod and the locale. Out of range
  // can only be too close to zero here, since the library rejects values that are too large.
  std::from_chars(digits.begin(), digits.end(), value.number);
  return Add(std::move(value));
}

bool TreeBuilder::Add(JsonValue value) {
  end_ = value.range.end;
  after_ = SyntaxFault::After::kValue;
  (open_.empty() ? root_ : open_.back().value.children.emplace_back()) = std::move(value);
  return true;
}

bool TreeBuilder::Open(Kind kind) {
  if (open_.size() >= static_cast<size_t>(depth_max_))
    return Refuse(StatusCode::kExhausted,
                  "found more than " + std::to_string(depth_max_) + " nested lists and objects; accepted: at most " +
                      std::to_string(depth_max_),
                  TokenBegin(), Path());
  OpenContainer container;
  container.value = NewValue(kind, 1);
  end_ = container.value.range.end;
  after_ = kind == Kind::kObject ? SyntaxFault::After::kOpenObject : SyntaxFault::After::kOpenList;
  open_.push_back(std::move(container));
  return true;
}

bool TreeBuilder::Close() {
  JsonValue value = std::move(open_.back().value);
  open_.pop_back();
  value.range.end = bytes_read_;
  return Add(std::move(value));
}

bool TreeBuilder::key(std::string& name) {
  OpenContainer& object = open_.back();
  object.key_range = {TokenBegin(), bytes_read_};
  object.key = std::move(name);
  end_ = bytes_read_;
  after_ = SyntaxFault::After::kKey;
  if (object.keys.insert(object.key).second) return true;
  const JsonValue* first = object.value.Member(object.key);
  STEPWATCH_CHECK(first != nullptr);
  return Refuse(StatusCode::kInvalid,
                "the key \"" + base::Printable(object.key) + "\" appears twice in one object, first at " +
                    index_.Words(first->key_range.begin) + "; accepted: each key once",
                object.key_range.begin, Path());
}

bool TreeBuilder::parse_error(size_t lexer_position, const std::string&, const nlohmann::json::exception& error) {
  constexpr int kNumberOverflow = 406;
  if (error.id == kNumberOverflow) {
    const size_t begin = TokenBegin();
    return Refuse(StatusCode::kOutOfRange,
                  "found " + base::Printable(text_.substr(begin, NumberEnd(text_, begin) - begin), 24) +
                      ", a number too large for a double; accepted: up to about 1.8e308",
                  begin, Path());
  }
  // The lexer counts the end of the text like a byte, this iterator does not.
  SyntaxFault fault{after_, end_, bytes_read_, lexer_position > bytes_read_};
  if (!open_.empty()) {
    fault.open = open_.back().value.Is(Kind::kObject) ? '{' : '[';
    fault.open_begin = open_.back().value.range.begin;
  }
  refusal_ = DescribeSyntaxFault(text_, index_, fault);
  return false;
}

}  // namespace

Result<JsonDocument> ReadJson(std::string_view text_untrusted, int depth_max) {
  JsonDocument document{text_untrusted, TextIndex(text_untrusted), {}};
  Status is_text = CheckIsText(text_untrusted, document.index);
  if (!is_text.ok()) return is_text;
  size_t bytes_read = 0;
  TreeBuilder builder(text_untrusted, document.index, depth_max, bytes_read);
  const char* const begin = text_untrusted.data();
  const bool read = nlohmann::json::sax_parse(CountingIterator(begin, &bytes_read),
                                              CountingIterator(begin + text_untrusted.size(), &bytes_read), &builder,
                                              nlohmann::json::input_format_t::json, /*strict=*/true,
                                              /*ignore_comments=*/true);
  if (!read) return builder.refusal();
  document.root = builder.TakeRoot();
  return document;
}

}  // namespace stepwatch::config
