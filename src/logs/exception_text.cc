#include "src/logs/exception_text.h"

#include <algorithm>
#include <array>

#include "src/logs/scan.h"

namespace stepwatch::logs {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last)";
constexpr size_t kTypeBytesMax = 200;

// Sentences after the message of an exception that belong to it: Python's about chains, torch's about its errors.
constexpr std::array<std::string_view, 2> kChains = {
    "During handling of the above exception",
    "The above exception was the direct cause",
};
constexpr std::array<std::string_view, 14> kFollowers = {
    "CUDA kernel errors might",
    "For debugging consider",
    "Compile with `TORCH_USE_CUDA_DSA`",
    "Device-side assert",
    "Search for `cuda",
    "Exception raised from",
    "frame #",
    "HIP kernel errors might",
    "Last error:",
    "ncclUnhandledCudaError",
    "ncclSystemError",
    "ncclInternalError",
    "ncclRemoteError",
    "ncclInvalidUsage",
};

template <size_t count>
bool StartsWithAny(std::string_view line, const std::array<std::string_view, count>& words) {
  return std::any_of(words.begin(), words.end(), [line](std::string_view word) { return line.starts_with(word); });
}

// Without the bars and branches that exception groups print before their lines.
std::string_view WithoutBranches(std::string_view line) {
  size_t i = 0;
  while (i < line.size() && (scan::IsBlank(line[i]) || line[i] == '|' || line[i] == '+' || line[i] == '-')) ++i;
  return line.substr(i);
}

// Box-drawing characters are U+2500 to U+257F; rich marks the line of the fault with U+2771.
bool StartsWithBox(std::string_view line) {
  return line.starts_with("\xe2\x94") || line.starts_with("\xe2\x95") || line.starts_with("\xe2\x9d\xb1");
}

bool IsSourceLine(std::string_view line) {
  return line.starts_with("  File \"") && line.find("\", line ") != std::string_view::npos;
}

}  // namespace

bool ExceptionText::Begins(std::string_view line) {
  if (line.size() < 12) return false;
  switch (line.front()) {
    case 'T': return line.starts_with(kTraceback);
    case 'O': return line.starts_with("Original Traceback (most recent");
    case 'F': return line.starts_with("Fatal Python error: ");
    case 't':
      return line.starts_with("terminate called after throwing") ||
             (line.starts_with("thread '") && line.find(" panicked at ") != std::string_view::npos);
    case ' ': {
      if (IsSourceLine(line)) return true;
      const std::string_view text = scan::WithoutBlanksBefore(line);
      return text.starts_with("+ Exception Group Traceback") || text.starts_with(kTraceback);
    }
    case '\xe2': return line.starts_with("\xe2\x95\xad") && line.find(" Traceback (most") != std::string_view::npos;
    default: return false;
  }
}

ExceptionText::ExceptionText(std::string_view first, size_t lines_max, size_t bytes_max)
    : lines_max_(lines_max), bytes_max_(bytes_max) {
  Keep(first);
  if (first.starts_with("thread '")) {
    kind_ = Kind::kRust;
    type_ = "panic";
    const size_t place = first.find("panicked at ");
    message_ = std::string(scan::Trimmed(first.substr(place == std::string_view::npos ? 0 : place)));
  } else if (first.starts_with("terminate called")) {
    kind_ = Kind::kTerminate;
    const size_t open = first.find('\'');
    const size_t close = first.rfind('\'');
    type_ = open < close ? std::string(first.substr(open + 1, std::min(close - open - 1, kTypeBytesMax))) : "terminate";
  } else if (first.starts_with("Fatal Python error: ")) {
    kind_ = Kind::kDump;
    type_ = "Fatal Python error";
    message_ = std::string(scan::Trimmed(first.substr(20)));
  }
  is_group_ = first.find("+ Exception Group") != std::string_view::npos;
}

bool ExceptionText::Add(std::string_view line, bool has_own_header) {
  if (is_full_ || !Belongs(line, has_own_header)) return false;
  Keep(line);
  return true;
}

void ExceptionText::Keep(std::string_view line) {
  if (lines_ >= lines_max_ || stack_.size() + line.size() + 1 > bytes_max_) {
    is_full_ = true;
    return;
  }
  if (lines_++ > 0) stack_ += '\n';
  stack_ += line;
}

bool ExceptionText::Belongs(std::string_view line, bool has_own_header) {
  if (has_own_header) return false;
  const std::string_view text = scan::Trimmed(line);
  if (StartsWithAny(text, kChains)) {
    is_chained_ = true;
    phase_ = Phase::kAfter;
    return true;
  }
  if (text.empty()) return true;
  const bool is_head = Begins(line) && !IsSourceLine(line);
  if (is_head && (is_chained_ || text.starts_with("Original Traceback") || is_group_)) {
    is_chained_ = false;
    phase_ = Phase::kFrames;
    return true;
  }
  return phase_ == Phase::kFrames ? BelongsToFrames(line) : BelongsAfter(line);
}

bool ExceptionText::BelongsToFrames(std::string_view line) {
  const std::string_view text = scan::Trimmed(line);
  switch (kind_) {
    case Kind::kPython:
      if (StartsWithBox(text)) return true;
      if (is_group_) {
        (void)ReadType(WithoutBranches(line), true);
        return scan::IsBlank(line.front());
      }
      if (scan::IsBlank(line.front())) return true;
      if (!ReadType(text, false)) return false;
      phase_ = Phase::kAfter;
      return true;
    case Kind::kRust:
      if (text.starts_with("note: ") || text.starts_with("stack backtrace:") || scan::IsBlank(line.front()))
        return true;
      if (phase_ == Phase::kFrames && lines_ == 1) {
        message_ += " " + std::string(text);
        return true;
      }
      return false;
    case Kind::kTerminate:
      if (text.starts_with("what():")) {
        message_ = std::string(scan::Trimmed(text.substr(7)));
        phase_ = Phase::kAfter;
        return true;
      }
      return scan::IsBlank(line.front());
    case Kind::kDump:
      return scan::IsBlank(line.front()) || text.starts_with("Thread 0x") || text.starts_with("Current thread 0x") ||
             text.starts_with("Extension modules:") || text.starts_with("Python runtime state") ||
             text.starts_with("<no Python frame>") || text.starts_with("Current thread's C stack") ||
             text.starts_with("Binary file");
  }
  return false;
}

bool ExceptionText::BelongsAfter(std::string_view line) {
  const std::string_view text = scan::Trimmed(line);
  if (StartsWithAny(text, kFollowers)) {
    if (!text.starts_with("frame #") && !text.starts_with("Exception raised from")) AddToMessage(text);
    return true;
  }
  if (!scan::IsBlank(line.front())) return false;
  return !Begins(line);
}

void ExceptionText::AddToMessage(std::string_view line) {
  if (message_.size() + line.size() < bytes_max_ / 2) message_ += "\n" + std::string(line);
}

bool ExceptionText::ReadType(std::string_view line, bool in_group) {
  size_t size = 0;
  while (size < line.size() && size <= kTypeBytesMax && (scan::IsWordByte(line[size]) || line[size] == '.')) ++size;
  if (size == 0 || size > kTypeBytesMax || scan::IsDigit(line.front())) return false;
  const std::string_view type = line.substr(0, size);
  const std::string_view rest = line.substr(size);
  if (!rest.empty() && !rest.starts_with(": ") && rest != ":") return false;
  if (in_group) {
    // In a group, lines of source code are indented as well: only a name with a capital after its last point counts.
    const size_t point = type.rfind('.');
    const char first = type[point == std::string_view::npos ? 0 : std::min(point + 1, type.size() - 1)];
    if (!scan::IsUpper(first) || rest.empty()) return false;
    if (!type_.empty()) {
      AddToMessage(line);
      return true;
    }
  }
  type_ = std::string(type);
  message_ = std::string(scan::Trimmed(rest.empty() ? rest : rest.substr(1)));
  return true;
}

Exception ExceptionText::Finish(std::string* message) const {
  Exception exception;
  exception.type = type_;
  exception.message = message_;
  exception.stack = stack_;
  while (!exception.stack.empty() && (exception.stack.back() == '\n' || exception.stack.back() == ' '))
    exception.stack.pop_back();
  if (type_.empty())
    *message = exception.stack.substr(0, exception.stack.find('\n'));
  else
    *message = message_.empty() ? type_ : type_ + ": " + message_;
  return exception;
}

}  // namespace stepwatch::logs
