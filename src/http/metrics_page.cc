#include "src/http/metrics_page.h"

#include "src/base/text.h"

namespace stepwatch::http {

// The older format has no families: each sample carries its type and help, and an info is a gauge.
void MetricsPage::Family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  suffix_ = type == "counter" ? "_total" : type == "info" ? "_info" : "";
  const bool is_open = format_ == MetricsFormat::kOpenMetrics;
  const std::string head = is_open ? name_ : name_ + std::string(suffix_);
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", head, help, head,
                 type == "info" && !is_open ? "gauge" : type);
  if (is_open && name_.ends_with("_seconds")) fmt::format_to(std::back_inserter(text_), "# UNIT {} seconds\n", head);
}

std::string MetricsPage::Finish() && {
  text_ += EndOf(format_);
  return std::move(text_);
}

std::string_view MetricsPage::EndOf(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics ? "# EOF\n" : "";
}

std::string MetricsPage::Escaped(std::string_view text_untrusted) {
  std::string escaped;
  for (const char c : base::ValidUtf8(text_untrusted)) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace stepwatch::http
