// Puts the lines of one exception together: Python tracebacks (chained, groups, boxes of rich, "Original Traceback" of
// data loaders, a SyntaxError without head), Rust panics, C++ terminate, dumps of faulthandler.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/logs/record.h"

namespace stepwatch::logs {

// A state machine for the lines of one writer, without their prefixes.
class ExceptionText {
 public:
  // True if an exception begins with this line. A comparison of the first byte for most lines.
  static bool Begins(std::string_view line);

  // `first` begins an exception.
  ExceptionText(std::string_view first, size_t lines_max, size_t bytes_max);

  // Adds the line if it belongs to the exception. `has_own_header`: the program printed a time or a level before it.
  bool Add(std::string_view line, bool has_own_header);

  bool is_full() const { return is_full_; }
  // The exception, and the message of its record: type and message, which may have several lines.
  Exception Finish(std::string* message) const;

 private:
  enum class Kind { kPython, kRust, kTerminate, kDump };
  enum class Phase { kFrames, kAfter };  // before and after the line with the type

  bool Belongs(std::string_view line, bool has_own_header);
  bool BelongsToFrames(std::string_view line);
  bool BelongsAfter(std::string_view line);
  void Keep(std::string_view line);
  // Reads "Type: message"; false: another line.
  bool ReadType(std::string_view line, bool in_group);
  void AddToMessage(std::string_view line);

  size_t lines_max_, bytes_max_;
  Kind kind_ = Kind::kPython;
  Phase phase_ = Phase::kFrames;
  bool is_group_ = false;
  bool is_chained_ = false;  // a sentence about a chain came last
  bool is_full_ = false;
  size_t lines_ = 0;
  std::string stack_, type_, message_;
};

}  // namespace stepwatch::logs
