// Merges pages of metrics of many jobs into one page that Prometheus reads. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stepwatch::operations {

struct ExpositionLabel {
  std::string name;
  std::string value;
};

struct ExpositionPage {
  std::vector<ExpositionLabel> labels;  // put before those of every sample
  std::string text_untrusted;           // text format 0.0.4
};

inline constexpr size_t kExpositionBytesMax = size_t{32} << 20;

// Text format 0.0.4: the samples of a family are together, below one HELP and one TYPE, those of the first page that
// names it. If a sample already has a label of the page with another value, that label gets the prefix `exported_`, as
// in a scrape by Prometheus. Lines that Prometheus might refuse are left out (see ParseExposition), and so are families
// whose type differs from that of an earlier page, repeated samples, and samples beyond `bytes_max`; the page has their
// counts in `stepwatchd_jobs_samples_left_out` and `stepwatchd_jobs_families_refused`, the number of pages in
// `stepwatchd_jobs_scraped`, and that of missing pages in `stepwatchd_jobs_not_scraped`.
std::string MergeExpositions(const std::vector<ExpositionPage>& pages, size_t pages_missing,
                             size_t bytes_max = kExpositionBytesMax);

}  // namespace stepwatch::operations
