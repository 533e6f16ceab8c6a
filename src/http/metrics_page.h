// A page of metrics in either of the text formats that Prometheus reads.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/http/metrics_format.h"

namespace stepwatch::http {

class MetricsPage {
 public:
  explicit MetricsPage(MetricsFormat format) : format_(format) {}

  // Begins a family; the samples that follow belong to it. `name`: a counter without "_total", an info without "_info";
  // one that ends in "_seconds" gets that unit.
  void Family(std::string_view name, std::string_view type, std::string_view help);
  // `labels`: text of the form name="value",…
  template <class Number>
  void Sample(Number value, std::string_view labels = "") {
    Line(suffix_, value, labels);
  }
  // Samples of a summary: the total, and the number of observations.
  void SumAndCount(double sum, uint64_t count) {
    Line("_sum", sum, "");
    Line("_count", count, "");
  }
  // A sample of a part of the family: `suffix` is "_bucket", "_sum" or "_count".
  void Part(std::string_view suffix, double value, std::string_view labels = "") { Line(suffix, value, labels); }
  template <class Number>
  void One(std::string_view name, std::string_view type, std::string_view help, Number value) {
    Family(name, type, help);
    Sample(value);
  }
  // The whole page.
  std::string Finish() &&;
  // The page without its end, for families that follow.
  std::string Begin() && { return std::move(text_); }
  static std::string_view EndOf(MetricsFormat format);

  // Escapes the value of a label: UTF-8, with \\, \" and \n.
  static std::string Escaped(std::string_view text_untrusted);

 private:
  template <class Number>
  void Line(std::string_view suffix, Number value, std::string_view labels) {
    text_ += name_;
    text_ += suffix;
    if (!labels.empty()) fmt::format_to(std::back_inserter(text_), "{{{}}}", labels);
    text_ += ' ' + ValueText(value) + '\n';
  }
  template <class Number>
  static std::string ValueText(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(value)) return "NaN";
      if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    }
    return fmt::format("{}", value);
  }

  const MetricsFormat format_;
  std::string name_;
  std::string_view suffix_;
  std::string text_;
};

}  // namespace stepwatch::http
