// Fields of a config that calls of the program may change, with the rules of their keys in the file.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.h"

namespace stepwatch::config {

// `ops` as it is used. What is left out of `names` is named in a warning.
std::vector<Stat> OpsFromNames(const std::vector<std::string>& names_untrusted, std::vector<Warning>* warnings);

// `all_xy` follows it as it does in a file.
void SetXyDistribution(bool wanted, Config* config);

}  // namespace stepwatch::config
