#include "src/http/metrics_format.h"

#include <string>

#include "tests/catch.h"

namespace stepwatch::http {
namespace {

bool WantsOpen(const char* accept) {
  return WantedFormat(accept) == MetricsFormat::kOpenMetrics;
}

TEST_CASE("OpenMetrics is chosen where the client accepts it, and does not prefer the other format") {
  for (const char* accept :
       {"application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8",
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        "text/html, Application/OpenMetrics-Text ;q=0.1", "application/openmetrics-text;q=0.1,text/plain;q=0",
        "application/openmetrics-text;version=\"1.0.0\";q=0.5,text/plain;q=0.5"}) {
    CAPTURE(accept);
    CHECK(WantsOpen(accept));
  }
  for (const char* accept :
       {"", "*/*", "text/plain", "application/openmetrics-text;q=0", "application/json",
        "application/openmetrics-text;q=0.2,text/plain;q=0.5", ",,;;q=,", "application/openmetrics-textual",
        "application/openmetrics-text;version=2.0.0", "application/openmetrics-text;q=0.1,*/*;q=0.9",
        "application/openmetrics-text;q=nan", "application/openmetrics-text;q=-1", "application/openmetrics-text;q=x",
        "application/openmetrics-text;Q=0.3 , TEXT/PLAIN ; Q=0.4"}) {
    CAPTURE(accept);
    CHECK_FALSE(WantsOpen(accept));
  }
}

TEST_CASE("each version of Prometheus gets the format that it prefers") {
  // 2.42
  CHECK(
      WantsOpen("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  // 3.0
  CHECK(
      WantsOpen("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                "application/openmetrics-text;version=0.0.1;q=0.5,"
                "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
  // Later ones prefer text.
  CHECK_FALSE(
      WantsOpen("text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,"
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.4,"
                "application/openmetrics-text;version=0.0.1;q=0.3,*/*;q=0.2"));
}

TEST_CASE("the type of a page is the one that Prometheus accepts") {
  CHECK(std::string(ContentTypeOf(MetricsFormat::kPrometheus)) == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(std::string(ContentTypeOf(MetricsFormat::kOpenMetrics)) ==
        "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

}  // namespace
}  // namespace stepwatch::http
