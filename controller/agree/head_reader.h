// Reads a message of the store: a head line of words, then the remaining text. All of it is untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/parse_number.h"

namespace stepwatch::agree {

inline bool IsHex(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class HeadReader {
 public:
  explicit HeadReader(std::string_view text) {
    const size_t end = text.find('\n');
    head_ = text.substr(0, end);
    if (end != std::string_view::npos) rest_ = text.substr(end + 1);
  }

  std::string_view Word() {
    const size_t end = head_.find(' ');
    const std::string_view word = head_.substr(0, end);
    head_ = end == std::string_view::npos ? "" : head_.substr(end + 1);
    return word;
  }
  template <class T>
  T Number() {
    const std::optional<T> number = base::ParseNumber<T>(Word());
    Need(number.has_value());
    return number.value_or(0);
  }
  template <class E, size_t n>
  E OneOf(const std::array<std::string_view, n>& words) {
    const std::string_view word = Word();
    for (size_t i = 0; i < n; ++i)
      if (words[i] == word) return static_cast<E>(i);
    is_good_ = false;
    return E{};
  }
  // True if the head line has no more words.
  bool at_end() const { return head_.empty(); }
  std::string Rest() const { return std::string(rest_); }
  void Need(bool condition) { is_good_ = is_good_ && condition; }
  bool good() const { return is_good_; }

 private:
  std::string_view head_, rest_;
  bool is_good_ = true;
};

}  // namespace stepwatch::agree
