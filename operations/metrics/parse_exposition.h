// Parser of a page of metrics of another program, in Prometheus' text format 0.0.4. Pure.
//
// Prometheus refuses a whole page for one line that it cannot read, so this parser leaves out lines that one of its
// parsers (that of a scrape, and the stricter one of promtool) refuses.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepwatch::operations {

struct ExpositionSample {
  std::string_view name;                                              // that of the family, or with a suffix
  std::vector<std::pair<std::string_view, std::string_view>> labels;  // values as written, escaped
  std::string value;                                                  // with the time, if there is one
};

struct ExpositionFamily {
  std::string name;
  std::string type = "untyped";
  std::string help;  // as written, escaped
  std::vector<ExpositionSample> samples;
};

struct ParsedExposition {
  std::vector<ExpositionFamily> families;  // usable, with at least one sample; views into the page
  size_t samples_bad = 0;                  // invalid lines, or those of a bad family
  size_t families_bad = 0;
};

// An invalid line is left out. A family is left out whole if it has two types, an unknown one, or one after its
// samples; if it is a histogram or a summary and has an invalid line, or lacks the label that its kind needs; and if
// its name is reserved for stepwatchd. Labels that begin with "__" are reserved by Prometheus.
ParsedExposition ParseExposition(std::string_view text_untrusted);

// The names that samples of a family of this type may have besides its own.
std::vector<std::string_view> SampleEndings(std::string_view type);

}  // namespace stepwatch::operations
