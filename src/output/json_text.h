// Builds JSON text piece by piece.
//
// Keeps no tree: destroying one of nlohmann's allocates, and a process without memory would end there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepwatch::output {

class JsonText {
 public:
  // `indent`: blanks per level.
  explicit JsonText(size_t indent) : indent_(indent) {}

  template <class Members>
  void Object(const Members& members) {
    Enclose('{', members, '}');
  }
  template <class Values, class Write>
  void Array(const Values& values, const Write& write) {
    const auto elements = [&] {
      for (const auto& value : values) {
        Next();
        write(value);
      }
    };
    Enclose('[', elements, ']');
  }
  template <class T>
  void Member(std::string_view key, const T& value) {
    Key(key);
    Value(value);
  }
  void Key(std::string_view key) {
    Next();
    Value(key);
    text_ += ": ";
  }
  // Names come from users' models: invalid UTF-8 is replaced and never throws.
  void Value(std::string_view text);
  void Value(const char* text) { Value(std::string_view(text)); }
  void Value(const std::string& text) { Value(std::string_view(text)); }
  // The shortest text that reads back to the same number, which must be finite.
  void Value(double value);
  void Value(bool value) { text_ += value ? "true" : "false"; }
  template <class Integer>
  void Value(Integer value) {
    text_ += std::to_string(value);
  }
  template <class Element>
  void Value(const std::vector<Element>& values) {
    Array(values, [this](const Element& element) { Value(element); });
  }

  std::string Take() { return std::move(text_); }

 private:
  template <class Inside>
  void Enclose(char begin, const Inside& inside, char end) {
    text_ += begin;
    ++depth_;
    is_first_ = true;
    inside();
    --depth_;
    if (!is_first_) text_.append("\n").append(depth_ * indent_, ' ');
    is_first_ = false;
    text_ += end;
  }
  void Next() {
    text_.append(is_first_ ? "\n" : ",\n").append(depth_ * indent_, ' ');
    is_first_ = false;
  }

  const size_t indent_;
  std::string text_;
  size_t depth_ = 0;
  bool is_first_ = true;
};

}  // namespace stepwatch::output
