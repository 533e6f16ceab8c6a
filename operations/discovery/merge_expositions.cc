#include "operations/discovery/merge_expositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "operations/discovery/parse_exposition.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

struct Family {
  std::string help;
  std::string type;
  std::string samples;
  std::set<std::string> seen;  // names and labels of its samples
};

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

using Labels = std::vector<std::pair<std::string, std::string>>;

// Joins both, without names that occur twice.
Labels Joined(const std::vector<ExpositionLabel>& own, const ExpositionSample& sample) {
  Labels labels;
  for (const ExpositionLabel& label : own) labels.emplace_back(label.name, Escaped(label.value));
  const size_t own_count = labels.size();
  const auto is_taken = [&](const std::string& name) {
    const auto has_name = [&](const auto& label) { return label.first == name; };
    return std::any_of(labels.begin(), labels.end(), has_name) ||
           std::any_of(sample.labels.begin(), sample.labels.end(), has_name);
  };
  for (const auto& [name, value] : sample.labels) {
    const auto end = labels.begin() + static_cast<std::ptrdiff_t>(own_count);
    const auto same = std::find_if(labels.begin(), end, [&](const auto& label) { return label.first == name; });
    if (same != end && same->second == value) continue;
    std::string free(name);
    if (same != end) do
        free = "exported_" + free;
      while (is_taken(free));
    labels.emplace_back(std::move(free), std::string(value));
  }
  return labels;
}

std::string TextOf(const Labels& labels) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : labels) texts.push_back(fmt::format("{}=\"{}\"", name, value));
  return texts.empty() ? "" : "{" + base::Joined(texts, ",") + "}";
}

class Merger {
 public:
  explicit Merger(size_t bytes_max) : bytes_max_(bytes_max) {}

  void Add(const ExpositionPage& page) {
    const ParsedExposition parsed = ParseExposition(page.text_untrusted);
    samples_left_out_ += parsed.samples_bad;
    families_left_out_ += parsed.families_bad;
    for (const ExpositionFamily& family : parsed.families) AddFamily(family, page.labels);
  }

  std::string Finish(size_t scraped, size_t missing) && {
    std::string text;
    for (const std::string& name : order_) {
      const Family& family = families_.find(name)->second;
      if (family.samples.empty()) continue;
      if (!family.help.empty()) text += fmt::format("# HELP {} {}\n", name, family.help);
      text += fmt::format("# TYPE {} {}\n", name, family.type) + family.samples;
    }
    const auto own = [&](std::string_view name, std::string_view help, size_t value) {
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{0} {2}\n", name, help, value);
    };
    own("stepwatchd_jobs_scraped", "Jobs of this machine whose metrics are on this page.", scraped);
    own("stepwatchd_jobs_not_scraped", "Jobs of this machine that did not respond in time.", missing);
    own("stepwatchd_jobs_samples_left_out", "Lines of these jobs that are not samples, or did not fit.",
        samples_left_out_);
    own("stepwatchd_jobs_families_refused",
        "Families of these jobs that are left out because Prometheus would reject the page.", families_left_out_);
    return text;
  }

 private:
  // The names of a histogram's parts belong to no other family: of two families with one name the first is kept.
  bool Claim(const ExpositionFamily& family) {
    std::vector<std::string> names{family.name};
    for (const std::string_view ending : SampleEndings(family.type)) names.push_back(family.name + std::string(ending));
    const bool is_free = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      const auto owner = owners_.find(name);
      return owner == owners_.end() || owner->second == family.name;
    });
    if (!is_free) return false;
    const auto [found, is_new] = families_.try_emplace(family.name);
    if (!is_new) return found->second.type == family.type;
    found->second.type = family.type;
    order_.push_back(family.name);
    for (const std::string& name : names) owners_[name] = family.name;
    return true;
  }

  void AddFamily(const ExpositionFamily& parsed, const std::vector<ExpositionLabel>& own) {
    if (!Claim(parsed)) {
      samples_left_out_ += parsed.samples.size();
      ++families_left_out_;
      return;
    }
    Family& family = families_.find(parsed.name)->second;
    if (family.help.empty()) family.help = parsed.help;
    for (const ExpositionSample& sample : parsed.samples) {
      Labels labels = Joined(own, sample);
      const std::string series = std::string(sample.name) + TextOf(labels);
      std::sort(labels.begin(), labels.end());
      const size_t bytes = series.size() + sample.value.size() + 2;
      if (bytes_ + bytes > bytes_max_ || !family.seen.insert(std::string(sample.name) + TextOf(labels)).second) {
        ++samples_left_out_;
        continue;
      }
      bytes_ += bytes;
      family.samples += fmt::format("{} {}\n", series, sample.value);
    }
  }

  const size_t bytes_max_;
  size_t bytes_ = 0;
  size_t samples_left_out_ = 0;
  size_t families_left_out_ = 0;
  std::map<std::string, Family, std::less<>> families_;
  std::map<std::string, std::string, std::less<>> owners_;  // from the names of samples
  std::vector<std::string> order_;
};

}  // namespace

std::string MergeExpositions(const std::vector<ExpositionPage>& pages, size_t pages_missing, size_t bytes_max) {
  Merger merger(bytes_max);
  for (const ExpositionPage& page : pages) merger.Add(page);
  return std::move(merger).Finish(pages.size(), pages_missing);
}

}  // namespace stepwatch::operations
