// Messages of syslog: RFC 5424, over TCP in the two framings of RFC 6587. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/log_intake/sent_line.h"

namespace stepwatch::operations {

inline constexpr size_t kSyslogBytesMax = size_t{1} << 20;  // of a message; the rest is skipped

struct SyslogFrame {
  std::string text;
  bool is_truncated = false;
};

// Takes a stream apart. A message that begins with a digit has its length before it (octet counting); others end with a
// line feed.
class SyslogFramer {
 public:
  // Appends whole messages. False: the stream is not syslog, and no more is read of it.
  bool Add(std::string_view bytes, std::vector<SyslogFrame>* frames);
  // The stream has ended. False: in the middle of a message that has a length.
  bool Finish(std::vector<SyslogFrame>* frames);
  // True: a message has begun and not ended.
  bool is_inside() const { return state_ != State::kBetween; }
  // Bytes that are kept.
  size_t size() const { return text_.size(); }

 private:
  enum class State : uint8_t { kBetween, kLength, kCounted, kLine };

  void Keep(std::string_view bytes);
  void End(std::vector<SyslogFrame>* frames);

  State state_ = State::kBetween;
  uint64_t left_ = 0;  // kLength: the length so far; kCounted: the bytes to come
  int digits_ = 0;
  std::string text_;
  bool is_truncated_ = false;
};

// Reads the header and the structured data of RFC 5424: the parameters `file`, `offset`, `run` and `rank` of an element
// `stepwatch@...`. Another message with a priority keeps its text, whose prefix the reader of lines decodes.
SentLine ParseSyslog(const SyslogFrame& frame_untrusted);

}  // namespace stepwatch::operations
