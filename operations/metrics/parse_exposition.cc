#include "operations/metrics/parse_exposition.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_set>

#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kLineBytesMax = 64 << 10;
constexpr std::array<std::string_view, 2> kOwnPrefixes = {"stepwatchd_", "stepwatch_run_"};
constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kDigits = "0123456789";

void SkipBlanks(std::string_view* text) {
  text->remove_prefix(std::min(text->size(), text->find_first_not_of(kBlanks)));
}

bool IsNameByte(char byte, bool is_first, bool takes_colon) {
  const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
  return is_letter || (takes_colon && byte == ':') || (!is_first && byte >= '0' && byte <= '9');
}

// Empty: the text does not begin with a name.
std::string_view TakeName(std::string_view* text, bool takes_colon) {
  size_t bytes = 0;
  while (bytes < text->size() && IsNameByte((*text)[bytes], bytes == 0, takes_colon)) ++bytes;
  const std::string_view name = text->substr(0, bytes);
  text->remove_prefix(bytes);
  return name;
}

bool TakeByte(std::string_view* text, char byte) {
  if (!text->starts_with(byte)) return false;
  text->remove_prefix(1);
  return true;
}

size_t TakeDigits(std::string_view* text) {
  const size_t bytes = std::min(text->size(), text->find_first_not_of(kDigits));
  text->remove_prefix(bytes);
  return bytes;
}

// Parsed as in Go, except for numbers that are too small.
bool IsNumber(std::string_view text) {
  std::string word(text);
  for (char& letter : word) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (word == "nan") return true;
  std::string_view rest = word;
  (void)(TakeByte(&rest, '+') || TakeByte(&rest, '-'));
  if (rest == "inf" || rest == "infinity") return true;
  const std::string_view number = rest;
  size_t digits = TakeDigits(&rest);
  if (TakeByte(&rest, '.')) digits += TakeDigits(&rest);
  if (digits == 0) return false;
  if (TakeByte(&rest, 'e')) {
    (void)(TakeByte(&rest, '+') || TakeByte(&rest, '-'));
    if (TakeDigits(&rest) == 0) return false;
  }
  double value = 0;
  return rest.empty() && std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc();
}

// Milliseconds; a scrape accepts no time before 1970.
bool IsTime(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || text.find_first_not_of(kDigits) != std::string_view::npos) return false;
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end;
}

// The bytes up to the closing quote; nullopt: no closing quote, or an invalid escape.
std::optional<std::string_view> TakeQuoted(std::string_view* text) {
  if (!TakeByte(text, '"')) return std::nullopt;
  for (size_t at = 0; at < text->size(); ++at) {
    const char byte = (*text)[at];
    if (byte == '"') {
      const std::string_view value = text->substr(0, at);
      text->remove_prefix(at + 1);
      return value;
    }
    if (byte != '\\') continue;
    if (++at == text->size() || std::string_view("\\\"n").find((*text)[at]) == std::string_view::npos)
      return std::nullopt;
  }
  return std::nullopt;
}

bool TakeLabels(std::string_view* text, ExpositionSample* sample) {
  SkipBlanks(text);
  while (!TakeByte(text, '}')) {
    const std::string_view name = TakeName(text, /*takes_colon=*/false);
    SkipBlanks(text);
    if (name.empty() || name.starts_with("__") || !TakeByte(text, '=')) return false;
    SkipBlanks(text);
    const auto value = TakeQuoted(text);
    const auto is_same = [&](const auto& label) { return label.first == name; };
    if (!value || std::any_of(sample->labels.begin(), sample->labels.end(), is_same)) return false;
    sample->labels.emplace_back(name, *value);
    SkipBlanks(text);
    const bool goes_on = TakeByte(text, ',');
    SkipBlanks(text);
    if (!goes_on && !text->starts_with('}')) return false;
  }
  return true;
}

// Reads the part after the name.
bool TakeRest(std::string_view text, ExpositionSample* sample) {
  const bool is_apart = text.starts_with(' ') || text.starts_with('\t');
  SkipBlanks(&text);
  const bool has_labels = TakeByte(&text, '{');
  if (has_labels ? !TakeLabels(&text, sample) : !is_apart) return false;
  SkipBlanks(&text);
  const std::string_view value = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(value.size());
  SkipBlanks(&text);
  const std::string_view time = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(time.size());
  SkipBlanks(&text);
  if (!text.empty() || !IsNumber(value) || (!time.empty() && !IsTime(time))) return false;
  sample->value = std::string(value);
  if (!time.empty()) sample->value.append(" ").append(time);
  return true;
}

bool IsHelp(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\\' && (++at == text.size() || (text[at] != '\\' && text[at] != 'n'))) return false;
  return true;
}

bool IsText(std::string_view line) {
  return line.size() <= kLineBytesMax && line.find('\0') == std::string_view::npos &&
         line.find('\r') == std::string_view::npos && base::ValidUtf8(line) == line;
}

class Parser {
 public:
  void Take(std::string_view line) {
    std::string_view rest = line;
    SkipBlanks(&rest);
    if (rest.empty()) return;
    if (TakeByte(&rest, '#'))
      TakeComment(rest, IsText(line));
    else
      TakeSample(rest, IsText(line));
  }

  ParsedExposition Finish() && {
    for (const std::string& name : order_) {
      Entry& entry = entries_.find(name)->second;
      if (entry.is_bad) {
        ++parsed_.families_bad;
        parsed_.samples_bad += entry.lines;
      } else {
        parsed_.samples_bad += entry.lines - entry.family.samples.size();
        if (!entry.family.samples.empty()) parsed_.families.push_back(std::move(entry.family));
      }
    }
    return std::move(parsed_);
  }

 private:
  struct Entry {
    ExpositionFamily family;
    std::unordered_set<std::string> seen;  // the labels of its samples
    size_t lines = 0;                      // of samples
    bool has_type = false;
    bool is_bad = false;
  };

  Entry& EntryOf(std::string_view name) {
    const auto [found, is_new] = entries_.try_emplace(std::string(name));
    if (is_new) {
      order_.push_back(found->first);
      found->second.family.name = found->first;
      found->second.is_bad = std::any_of(kOwnPrefixes.begin(), kOwnPrefixes.end(),
                                         [&](std::string_view own) { return name.starts_with(own); });
    }
    return found->second;
  }

  // "# HELP name text", "# TYPE name type"; other comments are for people.
  void TakeComment(std::string_view text, bool is_text) {
    SkipBlanks(&text);
    const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    if (word != "HELP" && word != "TYPE") return;
    text.remove_prefix(word.size());
    SkipBlanks(&text);
    const std::string_view name = TakeName(&text, /*takes_colon=*/true);
    if (name.empty() || (!text.empty() && !text.starts_with(' ') && !text.starts_with('\t'))) return;
    SkipBlanks(&text);
    Entry& entry = EntryOf(name);
    if (word == "HELP") {
      if (is_text && IsHelp(text) && entry.family.help.empty()) entry.family.help = text;
      return;
    }
    while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
    constexpr std::array<std::string_view, 5> kTypes = {"counter", "gauge", "histogram", "summary", "untyped"};
    entry.is_bad |= entry.has_type || entry.lines > 0 || std::find(kTypes.begin(), kTypes.end(), text) == kTypes.end();
    entry.has_type = true;
    if (!entry.is_bad) entry.family.type = text;
  }

  // Histograms and summaries have samples of other names, too.
  Entry& EntryOfSample(std::string_view name) {
    if (const auto own = entries_.find(name); own != entries_.end()) return own->second;
    for (const std::string_view ending : {"_sum", "_count", "_bucket"}) {
      if (!name.ends_with(ending)) continue;
      const auto stem = entries_.find(name.substr(0, name.size() - ending.size()));
      if (stem == entries_.end()) continue;
      const auto endings = SampleEndings(stem->second.family.type);
      if (std::find(endings.begin(), endings.end(), ending) != endings.end()) return stem->second;
    }
    return EntryOf(name);
  }

  void TakeSample(std::string_view text, bool is_text) {
    ExpositionSample sample;
    sample.name = TakeName(&text, /*takes_colon=*/true);
    if (sample.name.empty()) return (void)++parsed_.samples_bad;
    Entry& entry = EntryOfSample(sample.name);
    ++entry.lines;
    const std::string& type = entry.family.type;
    const bool is_good =
        is_text && TakeRest(text, &sample) && HasItsLabel(entry.family, sample) && IsNew(sample, &entry);
    if (!is_good)
      entry.is_bad |= !SampleEndings(type).empty();
    else
      entry.family.samples.push_back(std::move(sample));
  }

  // A bucket has its bound, and the sample of a summary itself its quantile; both must be numbers in any family.
  static bool HasItsLabel(const ExpositionFamily& family, const ExpositionSample& sample) {
    const bool is_histogram = family.type == "histogram";
    if (!is_histogram && family.type != "summary") return true;
    const std::string_view ending = sample.name.substr(family.name.size());
    const std::string_view name = is_histogram ? "le" : "quantile";
    const auto label =
        std::find_if(sample.labels.begin(), sample.labels.end(), [&](const auto& each) { return each.first == name; });
    if (label != sample.labels.end()) return IsNumber(label->second) && (!is_histogram || !ending.empty());
    return is_histogram ? ending == "_sum" || ending == "_count" : !ending.empty();
  }

  static bool IsNew(const ExpositionSample& sample, Entry* entry) {
    auto labels = sample.labels;
    std::sort(labels.begin(), labels.end());
    std::string key(sample.name);
    for (const auto& [name, value] : labels) key.append(1, '\0').append(name).append(1, '\0').append(value);
    return entry->seen.insert(std::move(key)).second;
  }

  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> order_;
  ParsedExposition parsed_;
};

}  // namespace

std::vector<std::string_view> SampleEndings(std::string_view type) {
  if (type == "histogram") return {"_bucket", "_sum", "_count"};
  if (type == "summary") return {"_sum", "_count"};
  return {};
}

ParsedExposition ParseExposition(std::string_view text_untrusted) {
  Parser parser;
  while (!text_untrusted.empty()) {
    const size_t end = std::min(text_untrusted.find('\n'), text_untrusted.size());
    std::string_view line = text_untrusted.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    parser.Take(line);
    text_untrusted.remove_prefix(std::min(text_untrusted.size(), end + 1));
  }
  return std::move(parser).Finish();
}

}  // namespace stepwatch::operations
