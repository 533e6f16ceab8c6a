// Results of calls that users can make fail.
//
// A Status is Ok, or has a code, a sentence for people and, for a fault in the text of a config file, its place: key,
// line and column (1-based; columns count characters). A Result<T> is a value or such a Status. Both are values: copy
// and move them freely, from any thread. No function here throws, except Result::value() on an error, which is a
// mistake of the caller.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace stepwatch {

enum class StatusCode : uint8_t {
  kOk,
  kInvalid,      // malformed: bad JSON, a bad argument
  kWrongType,    // a JSON value of a type that the key does not accept (Python: TypeError)
  kOutOfRange,   // the right type, but an unusable value (Python: ValueError)
  kNotFound,     // no such file, module, parameter
  kUnavailable,  // the operating system refused; a later retry can succeed
  kExhausted,    // no space, no descriptors, or a limit of the monitor
  kUnsupported,  // well formed, but not supported by this build or for this tensor
  kTimedOut,
  kInternal,  // a bug in Stepwatch
};

// A place in a config text. line 0: no place in a text.
struct TextPlace {
  std::string key;  // dotted path, for instance "alert.rules[0].rule_name"; empty for the whole text
  int line = 0;
  int column = 0;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  Status(StatusCode code, std::string message, TextPlace place)
      : code_(code), message_(std::move(message)), place_(std::move(place)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // One sentence without the place: the value found, the values accepted, the consequence.
  const std::string& message() const { return message_; }
  const TextPlace& place() const { return place_; }

  // The message with its place in front: `line 3, column 5, "ops": …`.
  std::string ToString() const {
    if (ok()) return "ok";
    std::string text;
    if (place_.line > 0)
      text += "line " + std::to_string(place_.line) + ", column " + std::to_string(place_.column) + ", ";
    if (!place_.key.empty()) text += "\"" + place_.key + "\"";
    if (!text.empty()) text += text.back() == ' ' ? "" : ": ";
    return text + message_;
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  TextPlace place_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): `return value;` reads well
  Result(Status status)
      : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor): `return status;` likewise

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace stepwatch
