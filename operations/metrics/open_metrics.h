// Families of merged pages as text of OpenMetrics 1.0. Pure.
//
// OpenMetrics is stricter than the text format 0.0.4 in which the pages came: a counter ends with _total and is never
// NaN or negative; a histogram has all its parts, in order and in agreement. A family that breaks such a rule is
// `unknown`, with unchanged names and values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::operations {

struct MergedSample {
  std::string_view ending;  // after the name of the family: see SampleEndings; empty: none
  std::string labels;       // as written: name="value",…; without the bound
  std::string bound;        // of a histogram or a summary: the value of le or quantile
  std::string value;        // with the time in milliseconds, if there is one
};

struct MergedFamily {
  std::string name;
  std::string type;
  std::string help;  // as written, escaped
  std::vector<MergedSample> samples;
};

// The label of `bound`; empty: the type has none.
std::string_view BoundLabel(std::string_view type);
// name{labels} of a sample.
std::string SeriesText(const MergedFamily& family, const MergedSample& sample);

struct OpenMetricsPart {
  std::string text;              // without # EOF
  size_t families_left_out = 0;  // another one before it uses one of their names in OpenMetrics
  size_t samples_left_out = 0;   // those of these families
};
OpenMetricsPart OpenMetricsText(const std::vector<const MergedFamily*>& families);

}  // namespace stepwatch::operations
