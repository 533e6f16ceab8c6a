// Where two configs differ, key by key: what a config means, whatever its text leaves to defaults.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.h"

namespace stepwatch::config {

// One key of a config, and its value as JSON: `stepwatch.eps_mode` and `"exact"`. Keys of objects that the config knows
// are dotted; what else is a list or an object is one value.
struct ConfigValue {
  std::string key;
  std::string json;

  bool operator==(const ConfigValue&) const = default;
};

// All keys, in the order of docs/use/config.md.
std::vector<ConfigValue> ValuesOf(const Config& config);

struct KeyDifference {
  std::string key;
  std::string was;  // as JSON
  std::string now;
};

// Nothing if and only if they are the same.
std::vector<KeyDifference> DifferencesOf(const Config& was, const Config& now);

}  // namespace stepwatch::config
