// Pages of metrics of many jobs, as one page that Prometheus reads. Pure.
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

// Text format 0.0.4: the samples of a family stand together, below one HELP and one TYPE, those of the page that names
// it first. A sample that has a label of the page already, with another value, keeps it as `exported_` and its name, as
// in a scrape by Prometheus. Lines that Prometheus might refuse are left out (see ParseExposition), and so are families
// of a type that another page gives otherwise, repeated samples, and samples beyond `bytes_max`; the page has their
// counts in `stepwatchd_jobs_samples_left_out` and `stepwatchd_jobs_families_refused`, the number of pages in
// `stepwatchd_jobs_scraped`, and that of missing pages in `stepwatchd_jobs_not_scraped`.
std::string MergeExpositions(const std::vector<ExpositionPage>& pages, size_t pages_missing,
                             size_t bytes_max = kExpositionBytesMax);

}  // namespace stepwatch::operations
