#include "operations/metrics/merge_expositions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "operations/metrics/open_metrics.h"
#include "operations/metrics/parse_exposition.h"
#include "src/base/text.h"
#include "src/http/metrics_page.h"

namespace stepwatch::operations {
namespace {

struct Family {
  MergedFamily merged;
  std::unordered_set<std::string> seen;  // ends of the names, and labels, of its samples
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

// Names and escaped values.
using Labels = std::vector<std::pair<std::string, std::string>>;

Labels EscapedLabels(const std::vector<ExpositionLabel>& labels) {
  Labels escaped;
  for (const ExpositionLabel& label : labels) escaped.emplace_back(label.name, Escaped(label.value));
  return escaped;
}

// Joins both, without names that occur twice.
Labels Joined(const Labels& own, const ExpositionSample& sample) {
  Labels labels = own;
  const auto is_taken = [&](const std::string& name) {
    const auto has_name = [&](const auto& label) { return label.first == name; };
    return std::any_of(labels.begin(), labels.end(), has_name) ||
           std::any_of(sample.labels.begin(), sample.labels.end(), has_name);
  };
  for (const auto& [name, value] : sample.labels) {
    const auto same = std::find_if(own.begin(), own.end(), [&](const auto& label) { return label.first == name; });
    if (same != own.end() && same->second == value) continue;
    std::string free(name);
    if (same != own.end()) do
        free = "exported_" + free;
      while (is_taken(free));
    labels.emplace_back(std::move(free), std::string(value));
  }
  return labels;
}

// Joined by commas; the label with this name is left out.
std::string TextOf(const Labels& labels, std::string_view without) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (name == without) continue;
    if (!text.empty()) text += ',';
    text.append(name).append("=\"").append(value).append("\"");
  }
  return text;
}

class Merger {
 public:
  Merger(http::MetricsFormat format, size_t bytes_max) : format_(format), bytes_max_(bytes_max) {}

  void Add(const ExpositionPage& page) {
    const ParsedExposition parsed = ParseExposition(page.text_untrusted);
    samples_left_out_ += parsed.samples_bad;
    families_left_out_ += parsed.families_bad;
    const Labels own = EscapedLabels(page.labels);
    for (const ExpositionFamily& family : parsed.families) AddFamily(family, own);
  }

  std::string Finish(size_t scraped, size_t missing) && {
    std::vector<const MergedFamily*> families;
    for (const std::string& name : order_)
      if (const MergedFamily& family = families_.find(name)->second.merged; !family.samples.empty())
        families.push_back(&family);
    std::string text = format_ == http::MetricsFormat::kOpenMetrics ? OpenText(families) : PlainText(families);
    http::MetricsPage own(format_);
    own.One("stepwatchd_jobs_scraped", "gauge", "Jobs of this machine whose metrics are on this page.", scraped);
    own.One("stepwatchd_jobs_not_scraped", "gauge", "Jobs of this machine that did not respond in time.", missing);
    own.One("stepwatchd_jobs_samples_left_out", "gauge",
            "Lines of these jobs and files that are not samples, or did not fit.", samples_left_out_);
    own.One("stepwatchd_jobs_families_refused", "gauge",
            "Families of these jobs and files that are left out because Prometheus would reject the page.",
            families_left_out_);
    return text + std::move(own).Begin();
  }

 private:
  static std::string PlainText(const std::vector<const MergedFamily*>& families) {
    std::string text;
    for (const MergedFamily* family : families) {
      if (!family->help.empty()) text += fmt::format("# HELP {} {}\n", family->name, family->help);
      text += fmt::format("# TYPE {} {}\n", family->name, family->type);
      for (const MergedSample& sample : family->samples)
        text.append(SeriesText(*family, sample)).append(" ").append(sample.value).append("\n");
    }
    return text;
  }

  std::string OpenText(const std::vector<const MergedFamily*>& families) {
    OpenMetricsPart part = OpenMetricsText(families);
    families_left_out_ += part.families_left_out;
    samples_left_out_ += part.samples_left_out;
    return std::move(part.text);
  }

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
    if (!is_new) return found->second.merged.type == family.type;
    found->second.merged.name = family.name;
    found->second.merged.type = family.type;
    order_.push_back(family.name);
    for (const std::string& name : names) owners_[name] = family.name;
    return true;
  }

  void AddFamily(const ExpositionFamily& parsed, const Labels& own) {
    if (!Claim(parsed)) {
      samples_left_out_ += parsed.samples.size();
      ++families_left_out_;
      return;
    }
    Family& family = families_.find(parsed.name)->second;
    if (family.merged.help.empty()) family.merged.help = parsed.help;
    const std::string_view bound_label = BoundLabel(parsed.type);
    for (const ExpositionSample& sample : parsed.samples) {
      Labels labels = Joined(own, sample);
      MergedSample merged;
      for (const std::string_view ending : SampleEndings(parsed.type))
        if (sample.name.size() == parsed.name.size() + ending.size() && sample.name.ends_with(ending))
          merged.ending = ending;
      merged.labels = TextOf(labels, bound_label);
      for (const auto& [name, value] : labels)
        if (!bound_label.empty() && name == bound_label) merged.bound = value;
      merged.value = sample.value;
      // With the quotes and the like of the line.
      const size_t bytes = sample.name.size() + merged.labels.size() + merged.bound.size() + merged.value.size() + 16;
      std::sort(labels.begin(), labels.end());
      std::string series = std::string(merged.ending) + "{" + TextOf(labels, "");
      if (bytes_ + bytes > bytes_max_ || !family.seen.insert(std::move(series)).second) {
        ++samples_left_out_;
        continue;
      }
      bytes_ += bytes;
      family.merged.samples.push_back(std::move(merged));
    }
  }

  const http::MetricsFormat format_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  size_t samples_left_out_ = 0;
  size_t families_left_out_ = 0;
  std::map<std::string, Family, std::less<>> families_;
  std::map<std::string, std::string, std::less<>> owners_;  // from the names of samples
  std::vector<std::string> order_;
};

}  // namespace

std::string MergeExpositions(const std::vector<ExpositionPage>& pages, size_t pages_missing, http::MetricsFormat format,
                             size_t bytes_max) {
  Merger merger(format, bytes_max);
  size_t jobs = 0;
  for (const ExpositionPage& page : pages) {
    merger.Add(page);
    if (page.is_of_job) ++jobs;
  }
  return std::move(merger).Finish(jobs, pages_missing);
}

}  // namespace stepwatch::operations
