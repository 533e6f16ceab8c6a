#include "src/config/name_pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/config/target_key.h"
#include "src/config/text_index.h"

namespace stepwatch::config {
namespace {

constexpr std::string_view kRegexPrefix = "re:";
// Memory per pattern: program and matcher state.
constexpr int64_t kRegexBytesMax = int64_t{1} << 20;

RE2::Options RegexOptions() {
  RE2::Options options;
  options.set_max_mem(kRegexBytesMax);
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_dot_nl(true);
  return options;
}

// RE2 reports the faulty characters, not their position. The same characters may occur correctly before the fault, so
// the fault is at the end of the shortest prefix with the error. For a missing parenthesis, it is at the end of the
// last valid prefix.
size_t PlaceOfFault(std::string_view text, const RE2& refused) {
  const RE2::ErrorCode code = refused.error_code();
  size_t last_well = 0;
  for (size_t bytes = 1; bytes < text.size(); ++bytes) {
    const RE2 beginning(re2::StringPiece(text.data(), bytes), RegexOptions());
    if (beginning.error_code() != code) {
      last_well = bytes;
      continue;
    }
    if (code == RE2::ErrorUnexpectedParen) return bytes - 1;
    if (code != RE2::ErrorMissingParen && beginning.error_arg() == refused.error_arg())
      return bytes - std::min(bytes, refused.error_arg().size());
  }
  if (code == RE2::ErrorMissingParen) return last_well;
  if (code == RE2::ErrorUnexpectedParen) return text.size() - 1;
  return text.size() - std::min(text.size(), refused.error_arg().size());
}

std::unique_ptr<const RE2> CompileRegex(std::string_view text, PatternFault* fault) {
  auto regex = std::make_unique<const RE2>(re2::StringPiece(text.data(), text.size()), RegexOptions());
  if (regex->ok()) return regex;
  if (regex->error_code() == RE2::ErrorPatternTooLarge)
    *fault = {true, "a regular expression with a program of less than 1 MiB", 0};
  else
    *fault = {false, "a regular expression that RE2 accepts (" + base::Printable(regex->error()) + ")",
              PlaceOfFault(text, *regex)};
  return nullptr;
}

// Reads a glob from the left.
class GlobReader {
 public:
  explicit GlobReader(std::string_view glob) : glob_(glob) {}

  bool at_end() const { return at_ == glob_.size(); }
  size_t at() const { return at_; }
  bool Take(char wanted) {
    if (at_end() || glob_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool Sees(char wanted) const { return !at_end() && glob_[at_] == wanted; }
  std::string_view TakeCharacter() {
    const std::string_view character = glob_.substr(at_, std::max<size_t>(1, Utf8CharacterBytes(glob_, at_)));
    at_ += character.size();
    return character;
  }

 private:
  std::string_view glob_;
  size_t at_ = 0;
};

void AppendLiteral(std::string_view character, std::string* regex) {
  if (character.size() == 1 && std::ispunct(static_cast<unsigned char>(character[0])) != 0) regex->push_back('\\');
  regex->append(character);
}

void AppendRange(std::string_view from, std::string_view to, std::string* regex) {
  AppendLiteral(from, regex);
  regex->push_back('-');
  AppendLiteral(to, regex);
}

// Parses a set after "[". As in a shell, a leading "]" belongs to the set.
bool AppendSet(GlobReader* glob, std::string* regex, PatternFault* fault) {
  const size_t begin = glob->at() - 1;
  regex->append(glob->Take('!') ? "[^." : "[");
  for (bool is_first = true; is_first || !glob->Take(']'); is_first = false) {
    if (glob->at_end() || glob->Sees('.')) {
      *fault = {false, "a set that is closed by \"]\" and contains no dot", begin};
      return false;
    }
    const size_t at = glob->at();
    const std::string_view from = glob->TakeCharacter();
    GlobReader ahead = *glob;
    if (!ahead.Take('-') || ahead.at_end() || ahead.Sees(']') || ahead.Sees('.')) {
      AppendLiteral(from, regex);
      continue;
    }
    const std::string_view to = ahead.TakeCharacter();
    if (to < from) {
      *fault = {false, "a range from the lower to the higher character", at};
      return false;
    }
    const bool spans_dot = from < "." && to > ".";
    if (spans_dot) AppendRange(from, "-", regex);
    AppendRange(spans_dot ? "/" : from, to, regex);
    *glob = ahead;
  }
  regex->push_back(']');
  return true;
}

// The text between two dots.
struct GlobPart {
  bool any_depth = false;  // `**`
  std::string regex;
};

bool ReadPart(GlobReader* glob, GlobPart* part, PatternFault* fault) {
  const size_t begin = glob->at();
  bool may_be_empty = true;
  while (!glob->at_end() && !glob->Sees('.')) {
    if (glob->Take('*')) {
      const bool begins_part = glob->at() == begin + 1;
      part->regex += "[^.]*";
      if (!glob->Take('*')) continue;
      part->any_depth = begins_part && (glob->at_end() || glob->Sees('.'));
      if (part->any_depth) return true;
      *fault = {false, "\"**\" as a whole part, as in \"layers.**.weight\", and \"*\" inside a part", glob->at() - 2};
      return false;
    }
    may_be_empty = false;
    if (glob->Take('[')) {
      if (!AppendSet(glob, &part->regex, fault)) return false;
    } else if (glob->Take('?')) {
      part->regex += "[^.]";
    } else {
      AppendLiteral(glob->TakeCharacter(), &part->regex);
    }
  }
  if (part->regex.empty())
    *fault = {false, "a name or pattern with at least one character before and after each dot", begin};
  if (may_be_empty && !part->regex.empty()) part->regex = "[^.]+";
  return !part->regex.empty();
}

// Parts that match any number of parts may match zero, and then the dot beside them is absent, too.
std::string Join(const std::vector<GlobPart>& parts) {
  if (parts.size() == 1 && parts[0].any_depth) return ".*";
  std::string regex;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_first = i == 0, is_last = i + 1 == parts.size();
    const bool after_depth = !is_first && parts[i - 1].any_depth;
    if (!parts[i].any_depth)
      regex += (is_first || after_depth ? "" : "\\.") + parts[i].regex;
    else
      regex += is_first ? "(?:.*\\.)?" : is_last ? "(?:\\..*)?" : "\\.(?:.*\\.)?";
  }
  return regex;
}

}  // namespace

std::optional<std::string> RegexOfGlob(std::string_view glob_untrusted, PatternFault* fault) {
  if (glob_untrusted.empty()) return "";
  GlobReader glob(glob_untrusted);
  std::vector<GlobPart> parts;
  do {
    GlobPart part;
    if (!ReadPart(&glob, &part, fault)) return std::nullopt;
    if (!part.any_depth || parts.empty() || !parts.back().any_depth) parts.push_back(std::move(part));
  } while (glob.Take('.'));
  return Join(parts);
}

NamePattern::NamePattern(int chunk, std::unique_ptr<const re2::RE2> whole_name)
    : chunk_(chunk), whole_name_(std::move(whole_name)) {}
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;
NamePattern::~NamePattern() = default;

std::optional<NamePattern> NamePattern::Compile(std::string_view text_untrusted, PatternFault* fault) {
  if (text_untrusted.size() > kPatternBytesMax) {
    *fault = {true, "a pattern of at most " + std::to_string(kPatternBytesMax) + " bytes", 0};
    return std::nullopt;
  }
  const TargetKey key = SplitTargetKey(text_untrusted);
  const size_t chunk_bytes = text_untrusted.size() - key.text.size();
  const bool is_regex = key.text.compare(0, kRegexPrefix.size(), kRegexPrefix) == 0;
  const size_t begin = chunk_bytes + (is_regex ? kRegexPrefix.size() : 0);
  std::unique_ptr<const RE2> regex;
  if (is_regex)
    regex = CompileRegex(text_untrusted.substr(begin), fault);
  else if (const std::optional<std::string> of_glob = RegexOfGlob(key.text, fault))
    regex = CompileRegex(*of_glob, fault);
  if (regex != nullptr) return NamePattern(key.chunk, std::move(regex));
  if (!fault->too_large) fault->at += begin;
  return std::nullopt;
}

bool NamePattern::MatchesModule(int chunk, std::string_view name) const {
  return (chunk_ < 0 || chunk_ == chunk) && RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *whole_name_);
}

bool NamePattern::MatchesParameter(int chunk, std::string_view name) const {
  if (chunk_ >= 0 && chunk_ != chunk) return false;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
    if (dot > 0 && MatchesModule(chunk, name.substr(0, dot))) return true;
  return MatchesModule(chunk, name);
}

}  // namespace stepwatch::config
