// Changes of config fields by the program, with the rules of their keys in the file.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.h"

namespace stepwatch::config {

// Normalised `ops`. Names that are left out are reported in a warning.
std::vector<Stat> OpsFromNames(const std::vector<std::string>& names_untrusted, std::vector<Warning>* warnings);

// Also sets `all_xy` by the rules of a file.
void SetXyDistribution(bool wanted, Config* config);

}  // namespace stepwatch::config
