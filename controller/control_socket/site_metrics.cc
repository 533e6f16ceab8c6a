#include "controller/control_socket/site_metrics.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "stepwatch/site_kind.h"

namespace stepwatch::control_socket {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Prometheus allows 10 s for a page by default, the control socket 5 s for an answer of the job.
constexpr milliseconds kAskTime{2000};

std::string LabelsOf(SiteKind kind, const LatestValue& value) {
  const Record& record = value.record;
  std::string labels =
      fmt::format("kind=\"{}\",site=\"{}\"", TraitsOf(kind).name, http::MetricsPage::Escaped(value.name));
  if (value.chunk != 0) labels += fmt::format(",chunk=\"{}\"", value.chunk);
  if (record.micro_step != 0) labels += fmt::format(",micro_step=\"{}\"", record.micro_step);
  if (record.element != kNoElement) labels += fmt::format(",element=\"{}\"", record.element);
  if (record.call != 0) labels += fmt::format(",call=\"{}\"", record.call);
  return labels;
}

// Prometheus rejects a page that contains a series twice.
class Series {
 public:
  Series(http::MetricsPage* page, size_t most) : page_(*page), most_(most) {}

  void Add(const std::string& labels, const StatValue& value) {
    if (labels_.size() == most_ || !labels_.insert(labels).second) {
      ++left_out_;
    } else if (value.is_integer) {
      page_.Sample(value.i64, labels);
    } else {
      page_.Sample(value.f64, labels);
    }
  }
  size_t left_out() const { return left_out_; }

 private:
  http::MetricsPage& page_;
  const size_t most_;
  std::set<std::string> labels_;
  size_t left_out_ = 0;
};

}  // namespace

SiteValues AskSites(Job& job) {
  SiteValues sites;
  sites.series_max = job.metrics_sites_max();
  if (sites.series_max == 0) return sites;
  const auto deadline = steady_clock::now() + kAskTime;
  for (const SiteKindTraits& traits : kSiteKindTraits) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds(0))
      ++sites.kinds_unanswered;
    else
      sites.kinds.emplace_back(traits.kind, job.Latest(traits.kind, left));
  }
  return sites;
}

void AddSites(http::MetricsPage* page, const SiteValues& sites) {
  if (sites.series_max == 0) return;
  page->Family("stepwatch_site_value", "gauge", "The newest value of each statistic of each site.");
  Series series(page, sites.series_max);
  for (const auto& [kind, values] : sites.kinds)
    for (const LatestValue& value : values) {
      if (value.record.missing()) continue;
      const std::string labels = LabelsOf(kind, value);
      for (size_t i = 0; i < value.record.value_count; ++i) {
        const StatValue& each = value.record.values[i];
        series.Add(fmt::format("{},op=\"{}\"", labels, StatName(each.stat)), each);
      }
    }
  page->Family("stepwatch_site_step", "gauge", "The newest step in which a site of a kind was seen.");
  for (const auto& [kind, values] : sites.kinds) {
    int64_t newest = -1;
    for (const LatestValue& value : values) newest = std::max(newest, value.record.step);
    if (newest >= 0) page->Sample(newest, fmt::format("kind=\"{}\"", TraitsOf(kind).name));
  }
  page->One("stepwatch_site_series_left_out", "gauge",
            "Series of sites that are left out of this page for lack of room.", series.left_out());
  page->One("stepwatch_site_kinds_unanswered", "gauge", "Kinds of sites whose values did not arrive in time.",
            sites.kinds_unanswered);
}

}  // namespace stepwatch::control_socket
