// Merges pages of metrics of many jobs into one page that Prometheus reads. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/http/metrics_format.h"

namespace stepwatch::operations {

struct ExpositionLabel {
  std::string name;
  std::string value;
};

struct ExpositionPage {
  std::vector<ExpositionLabel> labels;  // put before those of every sample
  std::string text_untrusted;           // text format 0.0.4
  bool is_of_job = true;
};

// Answers of jobs, with the labels of each job.
struct JobPages {
  std::vector<ExpositionPage> pages;
  size_t missing = 0;
};

inline constexpr size_t kExpositionBytesMax = size_t{32} << 20;

// The page of all, without the end that OpenMetrics wants. The samples of a family are together, below one HELP and one
// TYPE, those of the first page that names it. If a sample already has a label of the page with another value, that
// label gets the prefix `exported_`, as in a scrape by Prometheus. Lines that Prometheus might refuse are left out (see
// ParseExposition), and so are families whose type differs from that of an earlier page, repeated samples, and samples
// beyond `bytes_max`; the page has their counts in `stepwatchd_jobs_samples_left_out` and
// `stepwatchd_jobs_families_refused`, the number of pages in `stepwatchd_jobs_scraped` (those of jobs), and that of
// missing pages in `stepwatchd_jobs_not_scraped`. In OpenMetrics see OpenMetricsText, too.
std::string MergeExpositions(const std::vector<ExpositionPage>& pages, size_t pages_missing, http::MetricsFormat format,
                             size_t bytes_max = kExpositionBytesMax);

}  // namespace stepwatch::operations
