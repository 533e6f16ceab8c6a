// The keys by which a config names modules and parameters of one chunk, or of all.
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::config {

// One key, split: "1:layers.0" is {1, "layers.0"}, "layers.0" holds for every chunk (-1).
struct TargetKey {
  int chunk = -1;
  std::string text;
};

TargetKey SplitTargetKey(std::string_view key);

}  // namespace stepwatch::config
