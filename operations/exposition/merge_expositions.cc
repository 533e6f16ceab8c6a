#include "operations/exposition/merge_expositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kLineBytesMax = 64 << 10;

struct Family {
  std::string help;
  std::string type;
  std::string samples;
};

struct Sample {
  std::string_view name;
  std::string_view labels;  // between the braces
  std::string_view value;   // with the time, if there is one
};

bool IsNameByte(char byte, bool is_first) {
  const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == ':';
  return is_letter || (!is_first && byte >= '0' && byte <= '9');
}

size_t NameBytes(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size() && IsNameByte(text[bytes], bytes == 0)) ++bytes;
  return bytes;
}

bool IsNumber(std::string_view text) {
  constexpr std::array<std::string_view, 5> kWords = {"NaN", "+Inf", "-Inf", "Inf", "nan"};
  if (std::find(kWords.begin(), kWords.end(), text) != kWords.end()) return true;
  double number = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

bool IsValue(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return IsNumber(text);
  return IsNumber(text.substr(0, blank)) && IsNumber(text.substr(blank + 1));
}

// The bytes of one label `name="value"`; 0: it is none.
size_t LabelBytes(std::string_view text) {
  size_t at = NameBytes(text);
  if (at == 0 || text.substr(at, 2) != "=\"") return 0;
  for (at += 2; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      return at + 1;
  }
  return 0;
}

std::optional<Sample> SampleOf(std::string_view line) {
  Sample sample;
  const size_t name = NameBytes(line);
  if (name == 0) return std::nullopt;
  sample.name = line.substr(0, name);
  line.remove_prefix(name);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    size_t bytes = 0;
    while (bytes < line.size() && line[bytes] != '}') {
      const size_t label = LabelBytes(line.substr(bytes));
      if (label == 0) return std::nullopt;
      bytes += label;
      if (bytes < line.size() && line[bytes] == ',') ++bytes;
    }
    if (bytes >= line.size()) return std::nullopt;
    sample.labels = line.substr(0, bytes);
    line.remove_prefix(bytes + 1);
  }
  if (!line.starts_with(' ')) return std::nullopt;
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  if (!IsValue(line)) return std::nullopt;
  sample.value = line;
  return sample;
}

std::string Escaped(std::string_view value) {
  std::string text;
  for (const char byte : base::ValidUtf8(value)) {
    if (byte == '\\' || byte == '"') text += '\\';
    if (byte == '\n')
      text += "\\n";
    else
      text += byte;
  }
  return text;
}

// Both behind one another, without two of one name.
std::string JoinedLabels(const std::vector<ExpositionLabel>& own, std::string_view labels) {
  std::string text;
  for (const ExpositionLabel& label : own)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", label.name, Escaped(label.value));
  while (!labels.empty()) {
    const size_t bytes = LabelBytes(labels);
    const std::string_view label = labels.substr(0, bytes);
    labels.remove_prefix(std::min(labels.size(), bytes + 1));
    const std::string_view name = label.substr(0, label.find('='));
    const auto same = std::find_if(own.begin(), own.end(), [&](const auto& each) { return each.name == name; });
    if (same != own.end() && label.substr(name.size()) == "=\"" + Escaped(same->value) + "\"") continue;
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : ",", same != own.end() ? "exported_" : "", base::ValidUtf8(label));
  }
  return text;
}

class Merger {
 public:
  explicit Merger(size_t bytes_max) : bytes_max_(bytes_max) {}

  void Add(const ExpositionPage& page) {
    std::map<std::string, std::string, std::less<>> types;  // of this page's families
    std::string_view rest = page.text_untrusted;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(rest.size(), end + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      if (line.starts_with('#'))
        AddComment(line, &types);
      else
        AddSample(line, page.labels, types);
    }
  }

  std::string Finish(size_t scraped, size_t missing) && {
    std::string text;
    for (const std::string& name : order_) {
      const Family& family = families_.find(name)->second;
      if (family.samples.empty()) continue;
      if (!family.help.empty()) text += fmt::format("# HELP {} {}\n", name, family.help);
      text += fmt::format("# TYPE {} {}\n", name, family.type.empty() ? "untyped" : family.type) + family.samples;
    }
    const auto own = [&](std::string_view name, std::string_view help, size_t value) {
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{0} {2}\n", name, help, value);
    };
    own("stepwatchd_jobs_scraped", "Jobs of this machine whose metrics stand here.", scraped);
    own("stepwatchd_jobs_not_scraped", "Jobs of this machine that have not answered in time.", missing);
    own("stepwatchd_jobs_samples_left_out", "Lines of these jobs that are no samples, or had no room.", left_out_);
    return text;
  }

 private:
  Family& FamilyOf(std::string_view name) {
    const auto [found, is_new] = families_.try_emplace(std::string(name));
    if (is_new) order_.push_back(found->first);
    return found->second;
  }

  // "# HELP name text", "# TYPE name type"; others are for people.
  void AddComment(std::string_view line, std::map<std::string, std::string, std::less<>>* types) {
    const bool is_help = line.starts_with("# HELP "), is_type = line.starts_with("# TYPE ");
    if ((!is_help && !is_type) || line.size() > kLineBytesMax) return;
    line.remove_prefix(7);
    const size_t name = NameBytes(line);
    if (name == 0 || name >= line.size() || line[name] != ' ' || line.starts_with("stepwatchd_jobs_")) return;
    const std::string_view text = line.substr(name + 1);
    if (is_type) {
      constexpr std::array<std::string_view, 5> kTypes = {"counter", "gauge", "histogram", "summary", "untyped"};
      if (std::find(kTypes.begin(), kTypes.end(), text) == kTypes.end()) return;
      types->insert_or_assign(std::string(line.substr(0, name)), std::string(text));
    }
    Family& family = FamilyOf(line.substr(0, name));
    std::string& kept = is_help ? family.help : family.type;
    if (kept.empty()) kept = base::ValidUtf8(text);
  }

  // A summary has samples of other names, too.
  static std::string_view FamilyNameOf(std::string_view name,
                                       const std::map<std::string, std::string, std::less<>>& types) {
    if (types.count(name) > 0) return name;
    for (const std::string_view ending : {"_sum", "_count", "_bucket"}) {
      if (!name.ends_with(ending)) continue;
      const std::string_view stem = name.substr(0, name.size() - ending.size());
      const auto found = types.find(stem);
      if (found != types.end() && (found->second == "summary" || found->second == "histogram")) return stem;
    }
    return name;
  }

  void AddSample(std::string_view line, const std::vector<ExpositionLabel>& labels,
                 const std::map<std::string, std::string, std::less<>>& types) {
    const std::optional<Sample> sample = line.size() > kLineBytesMax ? std::nullopt : SampleOf(line);
    if (!sample || sample->name.starts_with("stepwatchd_jobs_")) return (void)++left_out_;
    const std::string_view name = FamilyNameOf(sample->name, types);
    const std::string joined = JoinedLabels(labels, sample->labels);
    const std::string text = joined.empty() ? fmt::format("{} {}\n", sample->name, sample->value)
                                            : fmt::format("{}{{{}}} {}\n", sample->name, joined, sample->value);
    Family& family = FamilyOf(name);
    const auto type = types.find(name);
    // Of one name and two meanings the first stands.
    const bool is_other = type != types.end() && family.type != type->second;
    if (is_other || bytes_ + text.size() > bytes_max_) return (void)++left_out_;
    bytes_ += text.size();
    family.samples += text;
  }

  const size_t bytes_max_;
  size_t bytes_ = 0;
  size_t left_out_ = 0;
  std::map<std::string, Family, std::less<>> families_;
  std::vector<std::string> order_;
};

}  // namespace

std::string MergeExpositions(const std::vector<ExpositionPage>& pages, size_t pages_missing, size_t bytes_max) {
  Merger merger(bytes_max);
  for (const ExpositionPage& page : pages) merger.Add(page);
  return std::move(merger).Finish(pages.size(), pages_missing);
}

}  // namespace stepwatch::operations
