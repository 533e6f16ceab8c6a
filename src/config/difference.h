// Compares the effective values of two configs key by key, independent of defaults left out in the text.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.h"

namespace stepwatch::config {

// One key of a config, and its value as JSON: `stepwatch.eps_mode` and `"exact"`. Keys of objects with fixed keys are
// dotted; any other list or object is one value.
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

// Empty if and only if they are the same.
std::vector<KeyDifference> DifferencesOf(const Config& was, const Config& now);

}  // namespace stepwatch::config
