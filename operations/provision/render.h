// Fills in templates of text files. Pure.
//
// `@name@` stands for a text. Lines that begin with % are directives: `%if NAME` and `%unless NAME`, with an optional
// `%else`, keep lines by a flag; `%each NAME` repeats them for each item of a list, whose texts then hide those of the
// same name outside; `%end` closes each of them. An unknown name is an error.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::operations {

using TemplateTexts = std::map<std::string, std::string, std::less<>>;

struct TemplateValues {
  TemplateTexts texts;
  std::map<std::string, bool, std::less<>> flags;
  std::map<std::string, std::vector<TemplateTexts>, std::less<>> lists;
};

Result<std::string> Render(std::string_view text, const TemplateValues& values);

}  // namespace stepwatch::operations
