#include "src/http/metrics_format.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>

#include "src/base/parse_number.h"

namespace stepwatch::http {
namespace {

bool Equal(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Removes the part up to the separator from the text and returns it.
std::string_view TakePart(std::string_view* text, char separator) {
  const std::string_view part = text->substr(0, text->find(separator));
  text->remove_prefix(std::min(text->size(), part.size() + 1));
  return Trimmed(part);
}

// One media range of the header.
struct Range {
  std::string_view type;
  std::string_view version;  // empty: any
  double q = 1;              // from 0 to 1
};

// A weight that is no number counts as 0.
Range ReadRange(std::string_view text) {
  Range range;
  range.type = TakePart(&text, ';');
  while (!text.empty()) {
    std::string_view value = TakePart(&text, ';');
    const std::string_view name = TakePart(&value, '=');
    value = Trimmed(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    if (Equal(name, "version")) range.version = value;
    // The comparisons are false for NaN.
    if (const double q = base::ParseNumber<double>(value).value_or(0); Equal(name, "q"))
      range.q = q > 0 ? std::min(q, 1.0) : 0;
  }
  return range;
}

}  // namespace

// A named type counts before a wildcard, whatever the weight of the wildcard is.
MetricsFormat WantedFormat(std::string_view accept_untrusted) {
  double open = 0, text = -1, any = 0;
  while (!accept_untrusted.empty()) {
    const Range range = ReadRange(TakePart(&accept_untrusted, ','));
    if (Equal(range.type, "application/openmetrics-text")) {
      if (range.version.empty() || range.version == "1.0.0" || range.version == "0.0.1") open = std::max(open, range.q);
    } else if (Equal(range.type, "text/plain")) {
      text = std::max(text, range.q);
    } else if (Equal(range.type, "text/*") || range.type == "*/*") {
      any = std::max(any, range.q);
    }
  }
  return open > 0 && open >= (text >= 0 ? text : any) ? MetricsFormat::kOpenMetrics : MetricsFormat::kPrometheus;
}

const char* ContentTypeOf(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace stepwatch::http
