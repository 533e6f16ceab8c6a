#include "src/logs/prefixes.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "src/logs/scan.h"

namespace stepwatch::logs {
namespace {

constexpr int kPrefixesMax = 12;
constexpr size_t kNameMax = 128;  // of a host, pod or logger

struct LevelWord {
  std::string_view word;
  Level level;
};
constexpr std::array kLevelWords = {
    LevelWord{"trace", Level::kTrace},     LevelWord{"debug", Level::kDebug},  LevelWord{"info", Level::kInfo},
    LevelWord{"notice", Level::kInfo},     LevelWord{"warn", Level::kWarning}, LevelWord{"warning", Level::kWarning},
    LevelWord{"error", Level::kError},     LevelWord{"err", Level::kError},    LevelWord{"critical", Level::kFatal},
    LevelWord{"fatal", Level::kFatal},     LevelWord{"severe", Level::kError}, LevelWord{"alert", Level::kFatal},
    LevelWord{"emergency", Level::kFatal},
};

Level LevelOfLetter(char c) {
  switch (c) {
    case 'D': return Level::kDebug;
    case 'I': return Level::kInfo;
    case 'W': return Level::kWarning;
    case 'E': return Level::kError;
    case 'F':
    case 'C': return Level::kFatal;
    default: return Level::kUnset;
  }
}

bool IsNameByte(char c) {
  return scan::IsWordByte(c) || c == '.' || c == '-';
}

// The bytes of a name at the start.
std::string_view NameAt(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && size <= kNameMax && IsNameByte(text[size])) ++size;
  return size > kNameMax ? std::string_view() : text.substr(0, size);
}

// Letters at the start.
std::string_view LettersAt(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && scan::IsAlpha(text[size])) ++size;
  return text.substr(0, size);
}

// Decodes prefixes one after the other. `rest_` is what follows those found so far.
class Decoder {
 public:
  Decoder(std::string_view line, const TimePolicy& policy) : policy_(policy), rest_(line) {}

  Prefixes Run() {
    for (int i = 0; i < kPrefixesMax && !rest_.empty() && !found_.is_partial; ++i)
      if (!DecodeOne()) break;
    TakeRepeated();
    found_.message = rest_;
    return found_;
  }

 private:
  // The next prefix, perhaps behind blanks. False: there is none.
  bool DecodeOne() {
    std::string_view text = scan::WithoutBlanksBefore(rest_);
    if (text.empty()) return false;
    const size_t indent = rest_.size() - text.size();
    const bool is_indented = indent > 0;
    // Source lines in a stack have four blanks at least; labels are padded with fewer.
    if (indent >= 4 && !found_.has_own_header) return false;
    bool is_found = false;
    switch (text.front()) {
      case '[': is_found = Bracket(&text); break;
      case '(': is_found = !is_indented && RayActor(&text); break;
      default:
        if (scan::IsDigit(text.front()))
          is_found = Digit(&text);
        else if (scan::IsWordByte(text.front()))
          is_found = (!is_indented || found_.has_own_header) && Letter(&text);
        else if (found_.has_own_header && (text.front() == '-' || text.front() == '|' || text.front() == '>'))
          is_found = scan::Take(&text, "- ") || scan::Take(&text, "| ") || scan::Take(&text, ">> ");
    }
    if (is_found) rest_ = text;
    return is_found;
  }

  void SetTime(const LineTime& time) {
    if (time.t) found_.t = time.t;
  }

  void SetLevel(Level level) {
    if (found_.level == Level::kUnset) found_.level = level;
    found_.has_own_header = true;
  }

  void SetComponent(std::string_view component) {
    if (found_.component.empty()) found_.component = component;
  }

  static void SkipOneBlank(std::string_view* text) { scan::Take(text, " "); }

  // "[rank3]:", "[default3]:", "[E1118 20:32:23.95 File.cpp:1]", "[2024-01-15 10:30:15]", "[INFO]", "[pod/a/b]", ...
  bool Bracket(std::string_view* text) {
    std::string_view inside = text->substr(1);
    const size_t close = inside.substr(0, 300).find(']');
    if (close == std::string_view::npos || close == 0) return false;
    std::string_view after = inside.substr(close + 1);
    inside = inside.substr(0, close);
    if (!InBrackets(inside, &after)) return false;
    *text = after;
    return true;
  }

  bool InBrackets(std::string_view inside, std::string_view* after) {
    const char first = inside.front();
    if (scan::IsDigit(first)) return TimeInBrackets(inside, after) || MpiTag(inside, after);
    if (inside.size() > 10 && scan::IsUpper(first) && scan::IsDigit(inside[1])) return GlogInBrackets(inside, after);
    if (first == 'r' || first == 'R')
      if (RankInBrackets(inside, after)) return true;
    if (inside.starts_with("pod/")) return Pod(inside.substr(4), after);
    if (inside.starts_with("NeMo ")) return NemoInBrackets(inside.substr(5), after);
    if (inside.find(',') != std::string_view::npos && after->starts_with("<std")) return MpiTag(inside, after);
    if (after->starts_with(":")) return TorchrunRole(inside, after);
    return LevelInBrackets(inside, after) || LoggerInBrackets(inside, after);
  }

  bool TimeInBrackets(std::string_view inside, std::string_view* after) {
    const auto time = TakeTime(&inside, policy_);
    if (!time || !scan::Trimmed(inside).empty()) return false;
    SetTime(*time);
    found_.has_own_header = true;
    scan::Take(after, ":");
    SkipOneBlank(after);
    return true;
  }

  // Open MPI: "[1,3]<stdout>:" and "[prterun-host-12@1,3]<stderr>:".
  bool MpiTag(std::string_view inside, std::string_view* after) {
    const size_t comma = inside.rfind(',');
    if (comma == std::string_view::npos || !after->starts_with("<std")) return false;
    std::string_view digits = inside.substr(comma + 1);
    const auto rank = scan::TakeWhole(&digits);
    const size_t colon = after->find(">:");
    if (!rank || !digits.empty() || colon == std::string_view::npos || colon > 10) return false;
    found_.rank = rank;
    after->remove_prefix(colon + 2);
    SkipOneBlank(after);
    return true;
  }

  bool GlogInBrackets(std::string_view inside, std::string_view* after) {
    const Level level = LevelOfLetter(inside.front());
    if (level == Level::kUnset || !Glog(level, inside.substr(1))) return false;
    SkipOneBlank(after);
    return true;
  }

  // "1118 20:32:23.955 12345 File.cpp:12": the header of glog and c10 after its letter.
  bool Glog(Level level, std::string_view header) {
    const auto time = TakeMonthDayTime(&header, policy_);
    if (!time) return false;
    SetTime(*time);
    SetLevel(level);
    header = scan::WithoutBlanksBefore(header);
    std::string_view number = header;
    if (scan::TakeWhole(&number) && scan::Take(&number, " ")) header = number;  // the thread
    SetComponent(header.substr(0, kNameMax));
    return true;
  }

  // "rank3", "Rank 0", "Rank 0 | Local Rank 0", "rank: 3".
  bool RankInBrackets(std::string_view inside, std::string_view* after) {
    if (!scan::EqualsIgnoringCase(inside.substr(0, 4), "rank")) return false;
    std::string_view text = inside.substr(4);
    if (!scan::Take(&text, ": ") && !scan::Take(&text, " ")) scan::Take(&text, "=");
    const auto rank = scan::TakeWhole(&text);
    if (!rank) return false;
    std::optional<int64_t> local;
    if (!text.empty()) {
      if (!scan::Take(&text, " | Local Rank ")) return false;
      local = scan::TakeWhole(&text);
      if (!local || !text.empty()) return false;
    }
    found_.rank = rank;
    if (local) found_.local_rank = local;
    scan::Take(after, ":");
    SkipOneBlank(after);
    return true;
  }

  // kubectl logs --prefix: "[pod/NAME/CONTAINER] ".
  bool Pod(std::string_view name, std::string_view* after) {
    found_.host = name.substr(0, name.find('/'));
    found_.writer = name;
    SkipOneBlank(after);
    return true;
  }

  // "[NeMo I 2024-08-13 10:00:00 nemo_logging:349] ".
  bool NemoInBrackets(std::string_view inside, std::string_view* after) {
    if (inside.size() < 2 || inside[1] != ' ') return false;
    const Level level = LevelOfLetter(inside.front());
    if (level == Level::kUnset) return false;
    inside.remove_prefix(2);
    if (const auto time = TakeTime(&inside, policy_)) SetTime(*time);
    SetLevel(level);
    SetComponent(scan::Trimmed(inside).substr(0, kNameMax));
    SkipOneBlank(after);
    return true;
  }

  // torchrun --tee: "[ROLE LOCAL_RANK]:" in one word, "[default3]:".
  bool TorchrunRole(std::string_view inside, std::string_view* after) {
    size_t digits = inside.size();
    while (digits > 0 && scan::IsDigit(inside[digits - 1])) --digits;
    if (digits == 0 || digits == inside.size()) return false;
    const std::string_view role = inside.substr(0, digits);
    if (!std::all_of(role.begin(), role.end(), scan::IsWordByte)) return false;
    std::string_view number = inside.substr(digits);
    const auto local = scan::TakeWhole(&number);
    if (!local) return false;
    found_.local_rank = local;
    after->remove_prefix(1);
    return true;
  }

  bool LevelInBrackets(std::string_view inside, std::string_view* after) {
    std::string_view word = scan::Trimmed(inside);
    std::string_view place;
    if (const size_t bar = word.find('|'); bar != std::string_view::npos) {  // Hugging Face: "[INFO|trainer.py:1] "
      place = word.substr(bar + 1);
      word = word.substr(0, bar);
    }
    const Level level = LevelOf(word);
    if (level == Level::kUnset) return false;
    SetLevel(level);
    if (!place.empty()) SetComponent(place.substr(0, kNameMax));
    scan::Take(after, ":");
    SkipOneBlank(after);
    return true;
  }

  // "[logging.py:96:log_dist] " after a time or level, and "[titan] " before one.
  bool LoggerInBrackets(std::string_view inside, std::string_view* after) {
    if (inside.size() > kNameMax || !after->starts_with(" ")) return false;
    const bool is_plain = std::all_of(inside.begin(), inside.end(), [](char c) { return IsNameByte(c) || c == ':'; });
    if (!is_plain || !scan::IsWordByte(inside.front())) return false;
    const std::string_view next = scan::WithoutBlanksBefore(*after);
    const bool before_time = next.size() > 10 && scan::IsDigit(next[0]) && (next[4] == '-' || next[4] == '/');
    const bool names_place = inside.find(".py:") != std::string_view::npos;
    if (!before_time && !(found_.has_own_header && names_place)) return false;
    SetComponent(inside);
    SkipOneBlank(after);
    return true;
  }

  // Ray: "(TrainWorker pid=123, ip=10.0.0.1) ".
  bool RayActor(std::string_view* text) {
    const std::string_view inside = text->substr(1, 200);
    const size_t pid = inside.find(" pid=");
    const size_t close = inside.find(')');
    if (pid == std::string_view::npos || close == std::string_view::npos || pid > close) return false;
    found_.writer = inside.substr(0, close);
    const size_t ip = found_.writer.find("ip=");
    if (ip != std::string_view::npos) found_.host = NameAt(found_.writer.substr(ip + 3));
    SetComponent(inside.substr(0, pid));
    *text = text->substr(close + 2);
    SkipOneBlank(text);
    return true;
  }

  bool Digit(std::string_view* text) {
    std::string_view rest = *text;
    if (const auto time = TakeTime(&rest, policy_)) {
      if (!rest.empty() && !scan::IsBlank(rest.front()) && rest.front() != '|' && rest.front() != ':' &&
          rest.front() != ',')
        return false;
      SetTime(*time);
      // containerd's "stdout F " and "stderr P ".
      std::string_view cri = rest;
      if (scan::Take(&cri, " stdout ") || scan::Take(&cri, " stderr ")) {
        if (scan::Take(&cri, "P ")) {
          found_.is_partial = true;
          *text = cri;
          return true;
        }
        if (scan::Take(&cri, "F ") || scan::Take(&cri, "F")) {
          *text = cri;
          return true;
        }
      }
      found_.has_own_header = true;
      scan::Take(&rest, ":");
      scan::Take(&rest, ",");
      while (!rest.empty() && scan::IsBlank(rest.front())) rest.remove_prefix(1);
      if (!scan::Take(&rest, "- ")) scan::Take(&rest, "| ");
      *text = rest;
      return true;
    }
    return Label(text) || HostLabel(text);
  }

  // srun --label: "3: ", right-aligned.
  bool Label(std::string_view* text) {
    std::string_view rest = *text;
    if (found_.has_own_header || found_.rank) return false;
    const auto rank = scan::TakeWhole(&rest);
    if (!rank || *rank > 1000000 || !(rest == ":" || scan::Take(&rest, ": "))) return false;
    found_.rank = rank;
    *text = rest == ":" ? std::string_view() : rest;
    return true;
  }

  // A name that ends as hosts do: "gpu-03", "node12", "10.0.0.1". Settings such as "fp16" and "layers.0" are none.
  static bool IsHost(std::string_view name) {
    if (std::any_of(name.begin(), name.end(), [](char c) { return scan::IsUpper(c) || c == '_'; })) return false;
    const bool is_address = std::count(name.begin(), name.end(), '.') == 3 &&
                            std::all_of(name.begin(), name.end(), [](char c) { return scan::IsDigit(c) || c == '.'; });
    if (is_address) return true;
    std::string_view label = name.substr(0, name.find('.'));
    size_t digits = label.size();
    while (digits > 0 && scan::IsDigit(label[digits - 1])) --digits;
    if (digits == label.size() || digits == 0) return false;
    label = label.substr(0, digits);
    if (label.ends_with('-')) return label.size() > 1;
    for (const std::string_view word : {"node", "host", "nid", "compute", "dgx", "hgx", "worker", "cn", "server"})
      if (label == word) return true;
    return false;
  }

  // pdsh: "gpu-03: ".
  bool HostLabel(std::string_view* text) {
    if (found_.has_own_header) return false;
    const std::string_view name = NameAt(*text);
    if (name.size() < 2 || !text->substr(name.size()).starts_with(": ")) return false;
    std::string_view number = name;
    if (scan::Take(&number, "rank")) {
      scan::Take(&number, "_");
      const auto rank = scan::TakeWhole(&number);
      if (!rank || !number.empty()) return false;
      found_.rank = rank;
    } else if (IsHost(name)) {
      found_.host = name;
    } else {
      return false;
    }
    text->remove_prefix(name.size() + 2);
    return true;
  }

  bool Letter(std::string_view* text) {
    return GlogLine(text) || SyslogLine(text) || LevelWordAt(text) || PlaceInFile(text) || NamedLevel(text) ||
           NcclHost(text) || HostLabel(text) || Stern(text);
  }

  // "I1118 20:32:23.955028 1234 file.cc:12] message".
  bool GlogLine(std::string_view* text) {
    if (text->size() < 20 || !scan::IsDigit((*text)[1])) return false;
    const Level level = LevelOfLetter(text->front());
    const size_t close = text->substr(0, 200).find("] ");
    if (level == Level::kUnset || close == std::string_view::npos || !Glog(level, text->substr(1, close - 1)))
      return false;
    text->remove_prefix(close + 2);
    return true;
  }

  // "Nov 28 05:40:12 host program[123]: message".
  bool SyslogLine(std::string_view* text) {
    if (text->size() < 16 || !scan::IsUpper(text->front()) || !scan::IsLower((*text)[1])) return false;
    std::string_view rest = *text;
    const auto time = TakeTime(&rest, policy_);
    if (!time) return false;
    SetTime(*time);
    std::string_view header = rest;
    if (scan::Take(&header, " ")) {
      const std::string_view host = NameAt(header);
      header.remove_prefix(host.size());
      const size_t end = header.substr(0, kNameMax).find(": ");
      if (!host.empty() && scan::Take(&header, " ") && end != std::string_view::npos && end > 1) {
        std::string_view program = header.substr(0, end - 1);
        if (program.find(' ') == std::string_view::npos) {
          found_.host = host;
          found_.writer = program;
          SetComponent(program.substr(0, program.find('[')));
          *text = header.substr(end + 1);
          return true;
        }
      }
    }
    found_.has_own_header = true;
    *text = scan::WithoutBlanksBefore(rest);
    return true;
  }

  // "INFO ", "WARNING:root:", "ERROR - ", "INFO     | ": a level in capitals, or any level after a time.
  bool LevelWordAt(std::string_view* text) {
    const std::string_view word = LettersAt(*text);
    if (word.size() < 3 || word.size() > 9) return false;
    const Level level = LevelOf(word);
    if (level == Level::kUnset || found_.level != Level::kUnset) return false;
    std::string_view rest = text->substr(word.size());
    if (rest.empty()) return false;
    const bool is_capital = std::all_of(word.begin(), word.end(), scan::IsUpper);
    if (!is_capital && !(found_.has_own_header && (rest.front() == ':' || rest.front() == ' '))) return false;
    if (rest.front() == ':') {
      rest.remove_prefix(1);
      // logging.basicConfig: "LEVEL:NAME:message".
      const std::string_view name = NameAt(rest);
      if (!name.empty() && rest.substr(name.size()).starts_with(":")) {
        SetComponent(name);
        rest.remove_prefix(name.size() + 1);
      }
      SkipOneBlank(&rest);
    } else if (scan::IsBlank(rest.front())) {
      rest = scan::WithoutBlanksBefore(rest);
      has_separator_ = scan::Take(&rest, "- ") || scan::Take(&rest, "| ") || scan::Take(&rest, ": ");
    } else {
      return false;
    }
    SetLevel(level);
    *text = rest;
    return true;
  }

  // After a time: "name - LEVEL - message"; after a level: "name - message" and loguru's "module:function:12 -
  // message".
  bool NamedLevel(std::string_view* text) {
    if (!found_.has_own_header || (!found_.component.empty() && found_.level != Level::kUnset)) return false;
    size_t size = 0;
    while (size < text->size() && size <= kNameMax &&
           (IsNameByte((*text)[size]) || (*text)[size] == ':' || (*text)[size] == '<' || (*text)[size] == '>'))
      ++size;
    std::string_view rest = text->substr(size);
    if (size == 0 || size > kNameMax || !scan::Take(&rest, " - ")) return false;
    const std::string_view name = text->substr(0, size);
    if (found_.level == Level::kUnset) {
      const std::string_view word = LettersAt(rest);
      if (LevelOf(word) == Level::kUnset) return false;
    } else if (!has_separator_) {
      return false;
    }
    SetComponent(name);
    *text = rest;
    return true;
  }

  // InternEvo after the level: "train.py:323 in function -- message".
  bool PlaceInFile(std::string_view* text) {
    if (found_.level == Level::kUnset) return false;
    const std::string_view name = NameAt(*text);
    std::string_view rest = text->substr(name.size());
    if (!name.ends_with(".py") || !scan::Take(&rest, ":") || !scan::TakeWhole(&rest)) return false;
    const size_t place = text->size() - rest.size();
    if (scan::Take(&rest, " in ")) {
      const size_t end = rest.substr(0, kNameMax).find(" -- ");
      if (end == std::string_view::npos) return false;
      rest.remove_prefix(end + 4);
    } else if (!scan::Take(&rest, ": ") && !scan::Take(&rest, " - ") && !scan::Take(&rest, "] ")) {
      return false;
    }
    SetComponent(text->substr(0, place));
    *text = rest;
    return true;
  }

  // NCCL: "host:123:456 [3] NCCL WARN message". The message keeps "NCCL WARN".
  bool NcclHost(std::string_view* text) {
    const std::string_view host = NameAt(*text);
    std::string_view rest = text->substr(host.size());
    if (host.empty() || !scan::Take(&rest, ":") || !scan::TakeWhole(&rest) || !scan::Take(&rest, ":") ||
        !scan::TakeWhole(&rest) || !scan::Take(&rest, " ["))
      return false;
    const auto device = scan::TakeWhole(&rest);
    if (!device || !scan::Take(&rest, "] ")) return false;
    rest = scan::WithoutBlanksBefore(rest);
    found_.host = host;
    if (!found_.local_rank) found_.local_rank = device;
    std::string_view words = rest;
    if (scan::Take(&words, "NCCL ") || scan::Take(&words, "RCCL ")) {
      SetComponent(rest.substr(0, 4));
      SetLevel(LevelOf(LettersAt(words)));
    }
    *text = rest;
    return true;
  }

  // stern: "POD CONTAINER message", where the pod's name ends as those of a set or of a training operator.
  bool Stern(std::string_view* text) {
    if (found_.has_own_header || !found_.writer.empty()) return false;
    const std::string_view pod = NameAt(*text);
    const size_t dash = pod.rfind('-');
    if (dash == std::string_view::npos || dash == 0 || pod.size() - dash > 6 || pod.size() - dash < 2) return false;
    const std::string_view tail = pod.substr(dash + 1);
    const bool is_numbered = std::all_of(tail.begin(), tail.end(), scan::IsDigit);
    const bool is_of_operator = pod.find("-worker-") != std::string_view::npos ||
                                pod.find("-master-") != std::string_view::npos ||
                                pod.find("-launcher-") != std::string_view::npos;
    if (!is_numbered || !is_of_operator) return false;
    std::string_view rest = text->substr(pod.size());
    if (!scan::Take(&rest, " ")) return false;
    const std::string_view container = NameAt(rest);
    rest.remove_prefix(container.size());
    if (container.empty() || !scan::Take(&rest, " ")) return false;
    found_.host = pod;
    found_.writer = pod;
    *text = rest;
    return true;
  }

  // Ray's "[repeated 7x across cluster]" at the end.
  void TakeRepeated() {
    if (found_.writer.empty() || !rest_.ends_with(']')) return;
    const size_t open = rest_.rfind(" [repeated ");
    if (open == std::string_view::npos) return;
    std::string_view text = rest_.substr(open + 11);
    const auto count = scan::TakeWhole(&text);
    if (!count || !scan::Take(&text, "x")) return;
    found_.repeated = count;
    rest_ = rest_.substr(0, open);
  }

  const TimePolicy& policy_;
  std::string_view rest_;
  Prefixes found_;
  bool has_separator_ = false;
};

}  // namespace

Level LevelOf(std::string_view word) {
  if (word.size() < 3 || word.size() > 9) return Level::kUnset;
  const char first = scan::Lower(word.front());
  const auto found = std::find_if(kLevelWords.begin(), kLevelWords.end(), [word, first](const LevelWord& known) {
    return known.word.front() == first && scan::EqualsIgnoringCase(known.word, word);
  });
  return found == kLevelWords.end() ? Level::kUnset : found->level;
}

Prefixes DecodePrefixes(std::string_view line, const TimePolicy& policy) {
  return Decoder(line, policy).Run();
}

std::string_view TailedFile(std::string_view line) {
  if (!line.starts_with("==> ") || !line.ends_with(" <==") || line.size() < 9) return {};
  return line.substr(4, line.size() - 8);
}

PathRank RankOfPath(std::string_view path) {
  PathRank found;
  for (size_t place = path.rfind("rank"); place != std::string_view::npos && place + 4 < path.size();
       place = place == 0 ? std::string_view::npos : path.rfind("rank", place - 1)) {
    std::string_view number = path.substr(place + 4);
    if (!scan::Take(&number, "_")) scan::Take(&number, "-");
    const auto value = scan::TakeWhole(&number);
    if (!value || (!number.empty() && scan::IsWordByte(number.front()) && number.front() != '_')) continue;
    const bool is_local = path.substr(0, place).ends_with("local_") || path.substr(0, place).ends_with("local-");
    (is_local ? found.local_rank : found.rank) = value;
    if (!is_local) return found;
  }
  constexpr std::string_view kAttempt = "/attempt_";
  const size_t attempt = path.rfind(kAttempt);
  if (attempt == std::string_view::npos) return found;
  std::string_view rest = path.substr(attempt + kAttempt.size());
  if (!scan::TakeWhole(&rest) || !scan::Take(&rest, "/")) return found;
  const auto local = scan::TakeWhole(&rest);
  if (local && rest.starts_with("/std")) found.local_rank = local;
  return found;
}

}  // namespace stepwatch::logs
