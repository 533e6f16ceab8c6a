// What a call that users can make fail gives back.
//
// A Status is Ok or carries a code, a sentence for the person at the other end, and, when the fault lies in the text of
// a config file, where: key, line and column (1-based; columns count characters). A Result<T> is a value or such a
// Status. Both are values: copy and move them freely, from any thread. Nothing here throws, except Result::value() on
// an error, which is a mistake of the caller.
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
  kWrongType,    // a JSON value of another type than the key takes (Python: TypeError)
  kOutOfRange,   // the right type, a value that is not usable (Python: ValueError)
  kNotFound,     // no such file, module, parameter
  kUnavailable,  // the operating system said no; trying again later can succeed
  kExhausted,    // no space, no descriptors, a limit of ours
  kUnsupported,  // well formed, but this build or this tensor cannot
  kTimedOut,
  kInternal,  // a fault of ours
};

// Where in a config text something was found. line 0: not about a place in a text.
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
  // One sentence without the place: what was found, what would be accepted, what happens now.
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
