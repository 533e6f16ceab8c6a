#include "operations/metrics/open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/base/parse_number.h"

namespace stepwatch::operations {
namespace {

constexpr std::string_view kTotal = "_total";

// The text is a number, see ParseExposition; from_chars reads no sign "+".
double NumberOf(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return base::ParseNumber<double>(text).value_or(std::nan(""));
}

std::pair<std::string_view, std::string_view> ValueAndTime(std::string_view text) {
  const size_t end = std::min(text.size(), text.find(' '));
  return {text.substr(0, end), text.substr(std::min(text.size(), end + 1))};
}

std::string NumberText(std::string_view text) {
  const double number = NumberOf(text);
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  return std::string(text);
}

// Milliseconds become seconds.
std::string ValueText(const MergedSample& sample) {
  const auto [value, time] = ValueAndTime(sample.value);
  std::string text = NumberText(value);
  if (time.empty()) return text;
  const std::string_view seconds = time.size() > 3 ? time.substr(0, time.size() - 3) : "0";
  const std::string_view rest = time.size() > 3 ? time.substr(time.size() - 3) : time;
  return text + fmt::format(" {}.{:0>3}", seconds, rest);
}

double ValueOf(const MergedSample& sample) {
  return NumberOf(ValueAndTime(sample.value).first);
}

bool IsCount(double value) {
  return value >= 0 && std::isfinite(value) && value == std::floor(value);
}

bool IsCounter(const MergedFamily& family) {
  return family.name.size() > kTotal.size() && family.name.ends_with(kTotal) &&
         std::all_of(family.samples.begin(), family.samples.end(),
                     [](const MergedSample& sample) { return ValueOf(sample) >= 0; });
}

// The samples of one series of a histogram or a summary, those with a bound in the order of their bounds.
struct Group {
  std::vector<const MergedSample*> bounded;
  const MergedSample* sum = nullptr;
  const MergedSample* count = nullptr;
  bool is_doubled = false;  // it has two sums or counts

  bool HasOneTime() const {
    std::set<std::string_view> times;
    for (const MergedSample* each : All()) times.insert(ValueAndTime(each->value).second);
    return times.size() <= 1;
  }
  std::vector<const MergedSample*> All() const {
    std::vector<const MergedSample*> all = bounded;
    for (const MergedSample* each : {sum, count})
      if (each != nullptr) all.push_back(each);
    return all;
  }
};

bool IsHistogram(const Group& group) {
  if (group.bounded.empty() || group.sum == nullptr || group.count == nullptr) return false;
  const MergedSample& last = *group.bounded.back();
  if (NumberOf(last.bound) != HUGE_VAL || ValueOf(last) != ValueOf(*group.count)) return false;
  double before = 0, bound_before = -HUGE_VAL;
  for (const MergedSample* each : group.bounded) {
    const double bound = NumberOf(each->bound), value = ValueOf(*each);
    // The sum of a histogram with negative bounds is no counter.
    if (!IsCount(value) || value < before || !(bound > bound_before) || bound < 0) return false;
    before = value;
    bound_before = bound;
  }
  return ValueOf(*group.sum) >= 0;
}

bool IsSummary(const Group& group) {
  for (const MergedSample* each : group.bounded)
    if (const double bound = NumberOf(each->bound); !(bound >= 0 && bound <= 1) || ValueOf(*each) < 0) return false;
  if (group.sum != nullptr && !(ValueOf(*group.sum) >= 0)) return false;
  return group.count == nullptr || IsCount(ValueOf(*group.count));
}

class Writer {
 public:
  void Add(const MergedFamily& family) {
    if (family.type == "counter" && IsCounter(family)) {
      const std::string stem = family.name.substr(0, family.name.size() - kTotal.size());
      return AddAs(stem, "counter", {"", kTotal, "_created"}, family, {});
    }
    if (!BoundLabel(family.type).empty()) return AddGrouped(family);
    AddAs(family.name, family.type == "gauge" ? "gauge" : "unknown", {""}, family, {});
  }

  OpenMetricsPart Take() && { return std::move(part_); }

 private:
  // `samples` in their order; empty: those of the family.
  void AddAs(const std::string& name, std::string_view type, const std::vector<std::string_view>& endings,
             const MergedFamily& family, std::vector<const MergedSample*> samples) {
    if (samples.empty())
      for (const MergedSample& each : family.samples) samples.push_back(&each);
    const auto is_taken = [&](std::string_view ending) { return names_.contains(name + std::string(ending)); };
    if (std::any_of(endings.begin(), endings.end(), is_taken)) {
      ++part_.families_left_out;
      part_.samples_left_out += samples.size();
      return;
    }
    for (const std::string_view ending : endings) names_.insert(name + std::string(ending));
    std::string help;
    for (const char byte : family.help) help.append(byte == '"' ? "\\" : "").append(1, byte);
    if (!help.empty()) part_.text += fmt::format("# HELP {} {}\n", name, help);
    part_.text += fmt::format("# TYPE {} {}\n", name, type);
    for (const MergedSample* each : samples)
      part_.text.append(SeriesText(family, *each)).append(" ").append(ValueText(*each)).append("\n");
  }

  void AddGrouped(const MergedFamily& family) {
    const bool is_histogram = family.type == "histogram";
    std::map<std::string_view, Group> groups;
    for (const MergedSample& sample : family.samples) {
      Group& group = groups[sample.labels];
      if (sample.ending == "_sum")
        group.is_doubled |= std::exchange(group.sum, &sample) != nullptr || !sample.bound.empty();
      else if (sample.ending == "_count")
        group.is_doubled |= std::exchange(group.count, &sample) != nullptr || !sample.bound.empty();
      else
        group.bounded.push_back(&sample);
    }
    std::vector<const MergedSample*> samples;
    bool is_good = true;
    for (auto& [labels, group] : groups) {
      std::stable_sort(group.bounded.begin(), group.bounded.end(),
                       [](const auto* a, const auto* b) { return NumberOf(a->bound) < NumberOf(b->bound); });
      is_good =
          is_good && !group.is_doubled && group.HasOneTime() && (is_histogram ? IsHistogram(group) : IsSummary(group));
      for (const MergedSample* each : group.All()) samples.push_back(each);
    }
    if (is_good && is_histogram)
      return AddAs(family.name, family.type, {"", "_bucket", "_sum", "_count", "_created"}, family, samples);
    if (is_good) return AddAs(family.name, family.type, {"", "_sum", "_count", "_created"}, family, samples);
    for (const std::string_view ending : {"", "_bucket", "_sum", "_count"}) {
      std::vector<const MergedSample*> those;
      for (const MergedSample& each : family.samples)
        if (each.ending == ending) those.push_back(&each);
      if (!those.empty()) AddAs(family.name + std::string(ending), "unknown", {""}, family, those);
    }
  }

  std::set<std::string, std::less<>> names_;
  OpenMetricsPart part_;
};

}  // namespace

std::string_view BoundLabel(std::string_view type) {
  if (type == "histogram") return "le";
  if (type == "summary") return "quantile";
  return "";
}

std::string SeriesText(const MergedFamily& family, const MergedSample& sample) {
  std::string text = family.name;
  text += sample.ending;
  if (sample.labels.empty() && sample.bound.empty()) return text;
  text.append("{").append(sample.labels);
  if (!sample.bound.empty()) {
    if (!sample.labels.empty()) text += ',';
    text.append(BoundLabel(family.type)).append("=\"").append(NumberText(sample.bound)).append("\"");
  }
  return text + "}";
}

OpenMetricsPart OpenMetricsText(const std::vector<const MergedFamily*>& families) {
  Writer writer;
  for (const MergedFamily* family : families) writer.Add(*family);
  return std::move(writer).Take();
}

}  // namespace stepwatch::operations
