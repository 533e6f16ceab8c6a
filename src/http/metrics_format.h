// The two text formats of a page of metrics, and the choice between them by a header Accept. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepwatch::http {

enum class MetricsFormat : uint8_t {
  kPrometheus,   // text format 0.0.4
  kOpenMetrics,  // 1.0
};

// OpenMetrics, if the header lists it in a version that can be served, and prefers no text format to it. A client that
// wants text format 1.0.0 gets 0.0.4, which is the same for classic names.
MetricsFormat WantedFormat(std::string_view accept_untrusted);
// The value of Content-Type; Prometheus 3 rejects a page without the exact one.
const char* ContentTypeOf(MetricsFormat format);

}  // namespace stepwatch::http
