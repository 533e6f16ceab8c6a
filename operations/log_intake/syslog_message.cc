#include "operations/log_intake/syslog_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/parse_number.h"
#include "src/logs/line_time.h"

namespace stepwatch::operations {
namespace {

constexpr int kLengthDigitsMax = 9;
constexpr int kPriorityMax = 191;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kElement = "stepwatch@";

// The text up to a blank, or the rest; removes both. "-" stands for no value.
std::string_view TakeWord(std::string_view* text) {
  const size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word == "-" ? std::string_view() : word;
}

std::optional<int> TakePriority(std::string_view* text) {
  if (text->empty() || text->front() != '<') return std::nullopt;
  const size_t end = text->substr(0, 5).find('>');
  if (end == std::string_view::npos) return std::nullopt;
  const auto priority = base::ParseNumber<int>(text->substr(1, end - 1));
  if (!priority || *priority < 0 || *priority > kPriorityMax) return std::nullopt;
  text->remove_prefix(end + 1);
  return priority;
}

struct Parameters {
  std::string file, run;
  std::optional<int64_t> offset, rank;
};

void SetParameter(std::string_view name, const std::string& value, Parameters* parameters) {
  if (name == "file") parameters->file = SentName(value);
  if (name == "run") parameters->run = SentName(value);
  const auto number = base::ParseNumber<int64_t>(value);
  if (name == "offset" && number && *number >= 0) parameters->offset = number;
  if (name == "rank" && number && *number >= 0) parameters->rank = number;
}

// Takes [ID NAME="VALUE" ...], any number of them. False: the text has another form, and is left as it was.
bool TakeData(std::string_view* text, Parameters* parameters) {
  std::string_view rest = *text;
  while (!rest.empty() && rest.front() == '[') {
    rest.remove_prefix(1);
    const std::string_view id = rest.substr(0, rest.find_first_of(" ]"));
    rest.remove_prefix(id.size());
    const bool is_ours = id.starts_with(kElement);
    while (!rest.empty() && rest.front() == ' ') {
      rest.remove_prefix(1);
      const size_t equals = rest.find('=');
      if (equals == std::string_view::npos || rest.substr(equals + 1, 1) != "\"") return false;
      const std::string_view name = rest.substr(0, equals);
      rest.remove_prefix(equals + 2);
      std::string value;
      size_t i = 0;
      for (; i < rest.size() && rest[i] != '"'; ++i) {
        if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\' || rest[i + 1] == ']'))
          ++i;
        if (is_ours) value += rest[i];
      }
      if (i == rest.size()) return false;
      rest.remove_prefix(i + 1);
      if (is_ours) SetParameter(name, value, parameters);
    }
    if (rest.empty() || rest.front() != ']') return false;
    rest.remove_prefix(1);
  }
  *text = rest;
  return true;
}

// "1 TIME HOST APP PROCESS MESSAGE-ID DATA TEXT" behind the priority. False: another form.
bool ReadHeader(std::string_view text, SentLine* line, std::optional<int64_t>* offset, std::string_view* message) {
  if (!text.starts_with("1 ")) return false;
  text.remove_prefix(2);
  std::string_view time = TakeWord(&text);
  if (const auto read = logs::TakeTime(&time, {}); read && read->t) line->t = read->t;
  line->host = SentName(TakeWord(&text));
  line->component = SentName(TakeWord(&text));
  (void)TakeWord(&text);  // the process, in the namespace of its sender
  (void)TakeWord(&text);
  Parameters parameters;
  if (text.starts_with('-'))
    text.remove_prefix(1);
  else if (!text.starts_with('[') || !TakeData(&text, &parameters))
    return false;
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  line->source = std::move(parameters.file);
  line->run = std::move(parameters.run);
  line->rank = parameters.rank;
  *offset = parameters.offset;
  *message = text;
  return true;
}

}  // namespace

void SyslogFramer::Keep(std::string_view bytes) {
  const size_t room = kSyslogBytesMax - std::min(text_.size(), kSyslogBytesMax);
  text_ += bytes.substr(0, room);
  is_truncated_ = is_truncated_ || bytes.size() > room;
}

void SyslogFramer::End(std::vector<SyslogFrame>* frames) {
  state_ = State::kBetween;
  while (text_.ends_with('\n') || text_.ends_with('\r') || text_.ends_with('\0')) text_.pop_back();
  if (!text_.empty()) frames->push_back({std::exchange(text_, {}), is_truncated_});
  text_.clear();
  is_truncated_ = false;
}

bool SyslogFramer::Add(std::string_view bytes, std::vector<SyslogFrame>* frames) {
  while (!bytes.empty()) {
    const char c = bytes.front();
    switch (state_) {
      case State::kBetween:
        if (c == '\n' || c == '\r' || c == '\0' || c == ' ') {
          bytes.remove_prefix(1);
          break;
        }
        state_ = c >= '1' && c <= '9' ? State::kLength : State::kLine;
        left_ = 0;
        digits_ = 0;
        break;
      case State::kLength:
        bytes.remove_prefix(1);
        if (c >= '0' && c <= '9' && ++digits_ <= kLengthDigitsMax) {
          left_ = left_ * 10 + static_cast<uint64_t>(c - '0');
          break;
        }
        if (c != ' ') return false;
        state_ = State::kCounted;
        break;
      case State::kCounted: {
        const std::string_view part = bytes.substr(0, left_);
        Keep(part);
        bytes.remove_prefix(part.size());
        left_ -= part.size();
        if (left_ == 0) End(frames);
        break;
      }
      case State::kLine: {
        const size_t end = std::min(bytes.find('\n'), bytes.size());
        Keep(bytes.substr(0, end));
        if (end < bytes.size()) End(frames);
        bytes.remove_prefix(std::min(end + 1, bytes.size()));
        break;
      }
    }
  }
  return true;
}

bool SyslogFramer::Finish(std::vector<SyslogFrame>* frames) {
  const bool is_line = state_ == State::kLine;
  const bool is_whole = is_line || state_ == State::kBetween;
  if (is_line) End(frames);
  return is_whole;
}

SentLine ParseSyslog(const SyslogFrame& frame_untrusted) {
  SentLine line;
  line.is_truncated = frame_untrusted.is_truncated;
  std::string_view text = frame_untrusted.text;
  const std::optional<int> priority = TakePriority(&text);
  if (!priority) {
    line.text = text;
    return line;
  }
  line.level = LevelOfSeverity(*priority % 8);
  std::optional<int64_t> offset;
  std::string_view message = text;
  if (!ReadHeader(text, &line, &offset, &message)) {
    line = SentLine{.text = std::string(text),
                    .rank = {},
                    .t = {},
                    .level = line.level,
                    .pid = {},
                    .is_truncated = frame_untrusted.is_truncated};
    return line;
  }
  // The priority of a line of a file is that of the input's configuration.
  if (!line.source.empty()) line.level = logs::Level::kUnset;
  line.text = message;
  if (offset && !line.source.empty())
    line.id =
        SentId(fmt::format("{}\n{}\n{}\n{:.6f}\n{}", line.host, line.source, *offset, line.t.value_or(0), line.text));
  return line;
}

}  // namespace stepwatch::operations
