// Which modules and parameters the keys of `targets` select.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::plan {

// One key, split: "1:layers.0" is {1, "layers.0"}, "layers.0" holds for every chunk (-1).
struct TargetKey {
  int chunk = -1;
  std::string text;
};

TargetKey SplitTargetKey(std::string_view key);

// A parameter is selected by a name equal to the key or continuing it with "."; "" and a key that ends in "." are plain
// prefixes. So "layers.1" selects layers.1.weight and never layers.10.weight.
bool MatchesParameter(const TargetKey& key, int chunk, std::string_view name, std::string_view squashed_name);
// A module is selected by its exact name; children are not included.
bool MatchesModule(const TargetKey& key, int chunk, std::string_view name, std::string_view squashed_name);

// The short form of squash_name: what follows the last "." in front of layer(s)., embedding(s)., final…, output…, norm…
// (the first of these patterns that matches); the name itself if none does.
std::string SquashName(std::string_view name);

}  // namespace stepwatch::plan
