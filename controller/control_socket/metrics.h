// The page of metrics that the control socket serves to Prometheus.
#pragma once

#include <string>

#include "controller/control_socket/site_metrics.h"
#include "controller/status/job_status.h"
#include "src/http/metrics_page.h"

namespace stepwatch::control_socket {

std::string MetricsText(const status::JobStatus& status, http::MetricsFormat format = http::MetricsFormat::kPrometheus,
                        const SiteValues& sites = {});

}  // namespace stepwatch::control_socket
