// What the door tells Prometheus.
#pragma once

#include <string>
#include <string_view>

#include "controller/door/job.h"
#include "controller/door/metrics_page.h"
#include "controller/door/site_metrics.h"

namespace stepwatch::door {

// The format that a header Accept asks for: OpenMetrics if it is named there and nothing else is liked better.
MetricsFormat WantedFormat(std::string_view accept_untrusted);
const char* ContentTypeOf(MetricsFormat format);

std::string MetricsText(const JobStatus& status, MetricsFormat format = MetricsFormat::kPrometheus,
                        const SiteValues& sites = {});

}  // namespace stepwatch::door
