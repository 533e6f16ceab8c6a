// The page of metrics that the control socket serves to Prometheus.
#pragma once

#include <string>
#include <string_view>

#include "controller/control_socket/site_metrics.h"
#include "controller/status/job_status.h"
#include "src/http/metrics_page.h"

namespace stepwatch::control_socket {

// The format that a header Accept requests: OpenMetrics if it is listed and no other format is preferred.
http::MetricsFormat WantedFormat(std::string_view accept_untrusted);
const char* ContentTypeOf(http::MetricsFormat format);

std::string MetricsText(const status::JobStatus& status, http::MetricsFormat format = http::MetricsFormat::kPrometheus,
                        const SiteValues& sites = {});

}  // namespace stepwatch::control_socket
